"""False alarms and detected slowdowns of calls that synchronise the host.

`sample` times six callables, unchanged and with 5 % more kernel work, in fresh processes, one after another.
`table` judges each process against others on its card by the plugin's gate. It needs no GPU.
"""

"""The functions of libcuda that copy and launch graphs."""

from __future__ import annotations

import itertools
from typing import Any

from cuda_header import cuda_numbers


class Driver:
    """The functions of libcuda that copy and launch graphs; a node has a name."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.graphs: dict[int, dict[int, str]] = {}
        self.copied_from: dict[int, int] = {}
        self.launched: list[list[str]] = []
        self.capturing = self._new({})
        self.refuses = ""

    def _new(self, nodes: dict[int, str]) -> int:
        number = next(self._numbers)
        self.graphs[number] = nodes
        return number

    def kernel(self, name: str) -> None:
        self.graphs[self.capturing][next(self._numbers)] = name

    def kernels(self, *names: str) -> None:
        for name in names:
            self.kernel(name)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu") and name == object.__getattribute__(self, "refuses"):
            return lambda *_: 999
        return object.__getattribute__(self, name)

    def cuStreamGetCaptureInfo_v2(self, _: Any, __: Any, ___: Any, graph: Any, *____: Any) -> int:
        graph._obj.value = self.capturing
        return 0

    def cuGraphGetNodes(self, graph: Any, nodes: Any, count: Any) -> int:
        found = self.graphs[graph.value]
        count._obj.value = len(found)
        if nodes is not None:
            nodes[:] = list(found)
        return 0

    def cuGraphClone(self, copy: Any, graph: Any) -> int:
        new: dict[int, str] = {}
        for node, name in self.graphs[graph.value].items():
            number = next(self._numbers)
            new[number] = name
            self.copied_from[number] = node
        copy._obj.value = self._new(new)
        return 0

    def cuGraphNodeFindInClone(self, found: Any, node: Any, graph: Any) -> int:
        same = [one for one in self.graphs[graph.value] if self.copied_from[one] == node.value]
        found._obj.value = same[0]
        return 0

    def cuGraphDestroyNode(self, node: Any) -> int:
        for nodes in self.graphs.values():
            nodes.pop(node.value, None)
        return 0

    def cuGraphInstantiateWithFlags(self, executable: Any, graph: Any, _: Any) -> int:
        executable._obj.value = self._new(dict(self.graphs[graph.value]))
        return 0

    def cuGraphLaunch(self, executable: Any, _: Any) -> int:
        self.launched.append(list(self.graphs[executable.value].values()))
        return 0

    def cuGraphDestroy(self, graph: Any) -> int:
        del self.graphs[graph.value]
        return 0

    cuGraphExecDestroy = cuGraphDestroy

    def cuGraphNodeGetType(self, node: Any, kind: Any) -> int:
        kinds = {"fill": "MEMSET", "copy": "MEMCPY", "event": "EVENT_RECORD", "graph": "GRAPH"}
        of_node = kinds.get(self._name(node).rstrip("!"), "KERNEL")
        kind._obj.value = cuda_numbers()[f"CU_GRAPH_NODE_TYPE_{of_node}"]
        return 0

    def cuGraphKernelNodeGetParams_v2(self, node: Any, params: Any) -> int:
        params._obj.function = len(self._name(node))
        return 0

    def _name(self, node: Any) -> str:
        return next(nodes[node.value] for nodes in self.graphs.values() if node.value in nodes)

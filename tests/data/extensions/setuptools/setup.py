from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

steps = CUDAExtension("fast._steps", ["src/fast/steps.cu", "src/fast/binding.cpp"])
fast = {"name": "fast", "version": "1", "packages": ["fast"], "package_dir": {"": "src"}}
setup(**fast, package_data={"fast": ["*.so"]}, ext_modules=[steps], cmdclass={"build_ext": BuildExtension})

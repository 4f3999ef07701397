// The Python interpreter of a shared library, as programs embed it: python_in_library [ARGUMENTS as
// python3's].
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr const char* kLibraries[] = {"libpython3.11.so.1.0", "libpython3.12.so.1.0",
                                        "libpython3.13.so.1.0"};
  void* library = nullptr;
  for (const char* name : kLibraries)
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  using Main = int(int, char**);
  auto* run = library ? reinterpret_cast<Main*>(dlsym(library, "Py_BytesMain")) : nullptr;
  if (run) return run(argc, argv);
  fprintf(stderr, "no libpython: install libpython3.11 (scripts/packages.txt)\n");
  return 1;
}

# What makes a mistake in the programs hard to use, and a build the same in every folder.
#
# Only the release build has it: the checks of the C library need optimization, and sanitizers bring their own. Only
# the components of the two programs have it: programs that tests measure are compiled as their tests say, and code
# that goes into other processes is assembly, which no flag changes.
#
# Shadow stacks need nothing of the code, so the linker may promise them for the libraries, too. Landing pads of
# indirect branches (IBT) are in our code only; LLVM's libraries have none, so the programs do not promise them.
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

set(MDL_HARDENED -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fstack-clash-protection)
set(MDL_HARDENED_LINK -Wl,-z,relro,-z,now)
check_cxx_compiler_flag(-fcf-protection=full MDL_HAS_CET)
if(MDL_HAS_CET)
  list(APPEND MDL_HARDENED -fcf-protection=full)
  list(APPEND MDL_HARDENED_LINK -Wl,-z,shstk)
endif()

# mdl_harden(TARGET [LEVEL]). Command lines are read once: their folders have -O1, which takes a quarter less to compile.
function(mdl_harden target)
  set(level -O2)
  if(ARGC GREATER 1)
    set(level ${ARGV1})
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
  if(MDL_SANITIZE)
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level} ${MDL_HARDENED}>)
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL EXECUTABLE)
    target_link_options(${target} PRIVATE $<$<CONFIG:Release>:${MDL_HARDENED_LINK}>)
  endif()
endfunction()

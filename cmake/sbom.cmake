# The bill of materials (scripts/sbom): a file of each library that is linked or compiled in.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(parts --part libsodium=${MDL_SODIUM} --part re2=${MDL_RE2} --part LLVM=${LLVM_LIBRARY_DIR}/libLLVMMC.a)
foreach(part fmt:fmt/core.h nlohmann_json:nlohmann/json.hpp CLI11:CLI/CLI.hpp toml11:toml.hpp liblzma:lzma.h
        zydis:Zydis/Zydis.h antlr4-runtime:antlr4-runtime/antlr4-runtime.h)
  string(REGEX MATCH "^([^:]+):(.+)$" matched ${part})
  set(name ${CMAKE_MATCH_1})
  find_file(MDL_PART_${name} ${CMAKE_MATCH_2} REQUIRED)
  mark_as_advanced(MDL_PART_${name})
  list(APPEND parts --part ${name}=${MDL_PART_${name}})
endforeach()
set(sbom ${CMAKE_BINARY_DIR}/share/mdl/sbom.spdx.json)
add_custom_command(OUTPUT ${sbom}
  COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/scripts/sbom ${sbom} ${PROJECT_VERSION} --program mdlc --program mdl-inject ${parts}
  DEPENDS ${CMAKE_SOURCE_DIR}/scripts/sbom ${MDL_SODIUM} ${MDL_RE2} VERBATIM)
add_custom_target(mdl_sbom ALL DEPENDS ${sbom})
install(FILES ${sbom} DESTINATION share/mdl)

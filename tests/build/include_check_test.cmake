# Gives check_includes.cmake trees with one violation each and expects it to name the file.
set(tree ${CMAKE_CURRENT_BINARY_DIR}/include_check_tree)

function(expect_complaint file content complaint)
  file(REMOVE_RECURSE ${tree})
  file(WRITE ${tree}/${file} "${content}")
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${tree} -P ${SOURCE_DIR}/cmake/check_includes.cmake
                  RESULT_VARIABLE result ERROR_VARIABLE output OUTPUT_VARIABLE output)
  file(REMOVE_RECURSE ${tree})
  if(result EQUAL 0 OR NOT output MATCHES "${file}: ${complaint}")
    message(FATAL_ERROR "expected a complaint '${complaint}' about ${file}, found: ${output}")
  endif()
endfunction()

expect_complaint(lockstep/base/a.h "#include \"lockstep/topology/host_list.h\"\n" "includes 'topology'")
expect_complaint(lockstep/launch/start/a.cpp "#include \"lockstep/ui/table.h\"\n" "includes 'ui'")
expect_complaint(lockstep/ui/a.cpp "#include \"lockstep/nowhere/a.h\"\n" "includes 'nowhere'")
expect_complaint(lockstep/comm/a.h "#include <torch/torch.h>\n" "'torch/' is for")
expect_complaint(lockstep/launch/a.cpp "auto x = ::getenv(\"HOME\")\;\n" "'getenv' is for")
expect_complaint(lockstep/launch/a.cpp "fmt::print(\"x\")\;\n" "'fmt::print' is for")
expect_complaint(lockstep/comm/a.cpp "std::exit(1)\;\n" "'exit' is for")

# The target `manpages`: man pages and completions for bash and zsh, in build/…/share. tools/manual writes them from
# the options that the built programs describe. The default build contains the target if it builds all programs: a
# command of a program that is not built cannot describe itself.

add_executable(lockstep_manual EXCLUDE_FROM_ALL
  tools/manual/bash_completion.cpp tools/manual/command_tree.cpp tools/manual/main.cpp
  tools/manual/man_page.cpp tools/manual/zsh_completion.cpp)
target_include_directories(lockstep_manual PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(lockstep_manual PRIVATE fmt::fmt nlohmann_json::nlohmann_json
                                              lockstep_build_flags)

set(programs "")
foreach(program lockstep lockstep-bench lockstep-dashboard lockstep-data lockstep-train)
  if(TARGET ${program})
    list(APPEND programs ${program})
  endif()
endforeach()
set(manual_stamp ${PROJECT_BINARY_DIR}/share/stamp)
add_custom_command(
  OUTPUT ${manual_stamp}
  COMMAND lockstep_manual $<TARGET_FILE:lockstep> ${PROJECT_VERSION} ${PROJECT_BINARY_DIR}/share
  COMMAND ${CMAKE_COMMAND} -E touch ${manual_stamp}
  DEPENDS lockstep_manual ${programs}
  COMMENT "Writing man pages and completions"
  VERBATIM)
add_custom_target(manpages DEPENDS ${manual_stamp})

if(TARGET lockstep-train AND TARGET lockstep-bench)
  set_target_properties(manpages PROPERTIES EXCLUDE_FROM_ALL OFF)
endif()

find_package(Python3 COMPONENTS Interpreter)
if(LOCKSTEP_BUILD_TESTS AND Python3_FOUND AND TARGET lockstep-train AND TARGET lockstep-bench)
  foreach(part Describe ManPage BashCompletion ZshCompletion)
    add_test(NAME cli.${part}Test
      COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cli/manual_test.py
              $<TARGET_FILE:lockstep> ${PROJECT_BINARY_DIR}/share ${part}Test)
    set_tests_properties(cli.${part}Test PROPERTIES LABELS process TIMEOUT 120)
  endforeach()
endif()

install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL
        COMPONENT programs PATTERN stamp EXCLUDE)

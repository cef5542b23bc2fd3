# Configures projects whose lower module asks for a higher one, and expects a refusal.
function(expect_refusal module_call complaint)
  file(REMOVE_RECURSE ${WORK_DIR})
  file(WRITE ${WORK_DIR}/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(wrong LANGUAGES NONE)
include(${SOURCE_DIR}/cmake/LockstepModules.cmake)
${module_call}
")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR} -B ${WORK_DIR}/build
                  RESULT_VARIABLE result ERROR_VARIABLE output OUTPUT_QUIET)
  file(REMOVE_RECURSE ${WORK_DIR})
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(result EQUAL 0 OR NOT output MATCHES "${complaint}")
    message(FATAL_ERROR "expected a refusal '${complaint}', found: ${output}")
  endif()
endfunction()

expect_refusal("lockstep_module(base HEADERS a.h DEPENDS lockstep::ui)" "may not depend on 'ui'")
expect_refusal("lockstep_module(base HEADERS a.h DEPENDS lockstep::base)" "may not depend on 'base'")
expect_refusal("lockstep_module(base HEADERS a.h DEPENDS lockstep::nothing)" "is not a module")
expect_refusal("lockstep_module(nothing HEADERS a.h)" "'nothing' is not one of")
expect_refusal("lockstep_module(base HEADERS a.h LIBRARIES lockstep::ui)" "belongs under DEPENDS")
expect_refusal("lockstep_module(base OTHER HEADERS a.h)" "unknown argument 'OTHER")

# Configures a project whose lower module asks for a higher one, and expects a refusal.
file(REMOVE_RECURSE ${WORK_DIR})
file(WRITE ${WORK_DIR}/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(wrong LANGUAGES NONE)
include(${SOURCE_DIR}/cmake/LockstepModules.cmake)
lockstep_module(base HEADERS a.h DEPENDS lockstep::ui)
")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR} -B ${WORK_DIR}/build
                RESULT_VARIABLE result ERROR_VARIABLE output OUTPUT_QUIET)
file(REMOVE_RECURSE ${WORK_DIR})
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(result EQUAL 0 OR NOT output MATCHES "lockstep_module\\(base\\): may not depend on 'ui'")
  message(FATAL_ERROR "expected a refusal, found: ${output}")
endif()

# Included by an install script: copies the debug information of FILE into FOLDER, under its build id.
execute_process(COMMAND ${READELF} --notes ${FILE} OUTPUT_VARIABLE notes ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
  message(FATAL_ERROR "${FILE}: expected a build id, found none")
endif()
set(debug_file ${FOLDER}/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug)
message(STATUS "Installing: ${debug_file}")
file(MAKE_DIRECTORY ${FOLDER}/${CMAKE_MATCH_1})
execute_process(COMMAND ${OBJCOPY} --only-keep-debug --compress-debug-sections ${FILE} ${debug_file}
                COMMAND_ERROR_IS_FATAL ANY)

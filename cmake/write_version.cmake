# Writes version.cpp if the version, the commit or the flags have changed. Every build runs this script. If
# LOCKSTEP_COMMIT is empty, git names the commit.
if(NOT LOCKSTEP_COMMIT)
  execute_process(COMMAND git describe --always --dirty=+ --abbrev=12 --exclude=*
                  WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE LOCKSTEP_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT LOCKSTEP_COMMIT)
  set(LOCKSTEP_COMMIT unknown)
endif()
if(LOCKSTEP_WITH_CUDA)
  set(LOCKSTEP_CUDA true)
else()
  set(LOCKSTEP_CUDA false)
endif()
configure_file(${SOURCE_DIR}/lockstep/base/version.cpp.in ${OUTPUT} @ONLY)

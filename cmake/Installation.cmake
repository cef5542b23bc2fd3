# Installation of everything except headers. Components: programs, bench, libraries, dev (headers, CMake package,
# links to the libraries), and debug, which is installed on request only:
#
#   cmake --install build/release                     everything but debug information
#   cmake --install build/release --component debug   lib/debug/.build-id/…, for gdb: set debug-file-directory
#
# Installed files keep their symbol tables, because the stack reports of lockstep show the names of functions.

option(LOCKSTEP_STRIP "Install files without their debug information" ON)
set(LOCKSTEP_TORCH_RPATH "" CACHE STRING "Folders where installed files look for libtorch, separated by semicolons")

add_link_options(-Wl,--build-id=sha1)

# lockstep_install(<target> <folder> <component>): installs a program, shared library or module, and its debug
# information as a file of its own in the component debug.
function(lockstep_install target folder component)
  install(TARGETS ${target}
    RUNTIME DESTINATION ${folder} COMPONENT ${component}
    LIBRARY DESTINATION ${folder} COMPONENT ${component} NAMELINK_COMPONENT dev)
  if(NOT LOCKSTEP_STRIP)
    return()
  endif()
  install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND \"${CMAKE_STRIP}\" --strip-debug --preserve-dates
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\")"
    COMPONENT ${component})
  install(CODE "set(FILE \"$<TARGET_FILE:${target}>\")
    set(READELF \"${CMAKE_READELF}\")
    set(OBJCOPY \"${CMAKE_OBJCOPY}\")
    set(FOLDER \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/debug/.build-id\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/install_debug_file.cmake\")"
    COMPONENT debug EXCLUDE_FROM_ALL)
endfunction()

# lockstep_look_for_torch(<target> <folder>): sets the RUNPATH of an installed file: LOCKSTEP_TORCH_RPATH, then
# <folder>. The loader searches LD_LIBRARY_PATH first and the system folders last.
function(lockstep_look_for_torch target folder)
  set(folders ${LOCKSTEP_TORCH_RPATH} ${folder})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${folders}")
  get_target_property(library torch IMPORTED_LOCATION)
  if(NOT library)
    get_target_property(library torch IMPORTED_LOCATION_RELEASE)
  endif()
  get_filename_component(libtorch_folder "${library}" DIRECTORY)
  if(libtorch_folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    # Without this property CMake pads the RUNPATH with an empty entry, which means the current folder.
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  endif()
endfunction()

# What `cmake --install` installs besides headers. Components: programs, libraries, dev (headers, CMake package, links
# to the libraries), and debug, which is installed on request only:
#
#   cmake --install build/release                     everything but debug information
#   cmake --install build/release --component debug   lib/debug/.build-id/…, for gdb: set debug-file-directory
#
# Installed files keep their symbol tables, because the stack reports of lockstep show the names of functions.

set(LOCKSTEP_TORCH_RPATH "" CACHE STRING "Folders where installed files look for libtorch, separated by semicolons")

add_link_options(-Wl,--build-id=sha1)

# lockstep_install(<target> <folder> <component>): installs a program, shared library or module without its debug
# information, and the debug information alone in component debug.
function(lockstep_install target folder component)
  install(TARGETS ${target}
    RUNTIME DESTINATION ${folder} COMPONENT ${component}
    LIBRARY DESTINATION ${folder} COMPONENT ${component} NAMELINK_COMPONENT dev)
  install(CODE "execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug --preserve-dates
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${component})
  install(CODE "set(FILE \"$<TARGET_FILE:${target}>\")
    set(READELF \"${CMAKE_READELF}\")
    set(OBJCOPY \"${CMAKE_OBJCOPY}\")
    set(FOLDER \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/debug/.build-id\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/install_debug_file.cmake\")"
    COMPONENT debug EXCLUDE_FROM_ALL)
endfunction()

# lockstep_look_for_torch(<target> <folder>): the folders where an installed file looks for libtorch, which may be in
# another folder than on the machine of the build. They are LOCKSTEP_TORCH_RPATH, <folder>, LD_LIBRARY_PATH and the
# usual ones.
function(lockstep_look_for_torch target folder)
  set(folders ${LOCKSTEP_TORCH_RPATH} ${folder})
  # Without the same in the build tree, CMake would reserve the room with empty folders, which mean the current one.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${folders}" BUILD_RPATH "${folders}")
endfunction()

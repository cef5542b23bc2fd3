# The two shared libraries that are installed for programs. They are linked from the objects of the modules, so nothing
# is compiled twice. The programs and tests of this tree link the static libraries of the modules instead.
#
#   liblockstep.so        the modules without libtorch
#   liblockstep-torch.so  nn, train and the kernels for GPUs, in builds with libtorch
#
# Only symbols marked with LOCKSTEP_API or LOCKSTEP_PRIVATE_API are exported (lockstep/base/export.h). Target
# `libraries` builds both; so does `all`, because `cmake --install` installs them.

# The version of the binary interface. Increase it if programs must be linked again, and rename the packages in debian/.
set(LOCKSTEP_SOVERSION 0)

# lockstep_modules_for_programs(<core> <torch>): the modules of either library. gpu belongs to the second one, so that a
# program without libtorch does not load CUDA.
function(lockstep_modules_for_programs core torch)
  get_property(modules GLOBAL PROPERTY LOCKSTEP_MODULES_FOR_PROGRAMS)
  set(of_torch "")
  if(LOCKSTEP_WITH_TORCH)
    set(of_torch gpu nn train)
    list(REMOVE_ITEM modules ${of_torch})
  endif()
  set(${core} ${modules} PARENT_SCOPE)
  set(${torch} ${of_torch} PARENT_SCOPE)
endfunction()

# lockstep_shared_library(<target> <output name> MODULES … [LINKS <target> …])
function(lockstep_shared_library target output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "MODULES;LINKS")
  set(objects "")
  set(libraries ${arg_LINKS})
  foreach(module IN LISTS arg_MODULES)
    list(APPEND objects $<TARGET_OBJECTS:lockstep_${module}>)
    get_target_property(linked lockstep_${module} LINK_LIBRARIES)
    list(FILTER linked EXCLUDE REGEX "lockstep|BUILD_INTERFACE")
    list(APPEND libraries ${linked})
  endforeach()

  set(script ${CMAKE_CURRENT_BINARY_DIR}/${output}.version)
  lockstep_public_headers(headers)
  set(header_files ${headers})
  list(TRANSFORM header_files PREPEND ${PROJECT_SOURCE_DIR}/)
  add_custom_command(OUTPUT ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${script} -D VERSION=${PROJECT_VERSION} -D SOVERSION=${LOCKSTEP_SOVERSION}
            -D SOURCE_DIR=${PROJECT_SOURCE_DIR} "-DHEADERS=${headers}"
            -P ${PROJECT_SOURCE_DIR}/cmake/write_version_script.cmake
    DEPENDS ${header_files} ${PROJECT_SOURCE_DIR}/cmake/write_version_script.cmake
    COMMENT "Writing the version script of lib${output}.so")

  add_library(${target} SHARED ${objects} ${script})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${output} VERSION ${PROJECT_VERSION} SOVERSION ${LOCKSTEP_SOVERSION}
    LINKER_LANGUAGE CXX LINK_DEPENDS ${script} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_link_libraries(${target} PRIVATE ${libraries})
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--as-needed)
  if(NOT LOCKSTEP_SANITIZE)  # the runtime of a sanitizer is linked into the program
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  lockstep_install(${target} ${CMAKE_INSTALL_LIBDIR} libraries)
endfunction()

function(lockstep_shared_libraries)
  lockstep_modules_for_programs(core torch)
  lockstep_shared_library(lockstep_shared lockstep MODULES ${core})
  add_custom_target(libraries DEPENDS lockstep_shared)
  if(torch)
    lockstep_shared_library(lockstep_torch_shared lockstep-torch MODULES ${torch} LINKS lockstep_shared)
    lockstep_look_for_torch(lockstep_torch_shared "$ORIGIN")
    add_dependencies(libraries lockstep_torch_shared)
  endif()
endfunction()

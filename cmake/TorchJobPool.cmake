# Compiling a file that includes libtorch needs up to 2 GiB of memory. Ninja runs as many of these compilations at once
# as fit into memory. Every target with such files has the property JOB_POOL_COMPILE torch.
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR torch_jobs "${memory_mib} / 2048")
if(torch_jobs LESS 1)
  set(torch_jobs 1)
endif()
set_property(GLOBAL PROPERTY JOB_POOLS torch=${torch_jobs})

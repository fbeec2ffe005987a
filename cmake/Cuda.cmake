# The .cu files use only raw pointers and sizes, so nvcc compiles them with any or no torch.
#
# KEEL_CUDA is on if torch is a CUDA build and nvcc exists; then the kernels are linked. With nvcc only, the target
# cuda_kernels still compiles them as a check. -DKEEL_NVCC=OFF ignores nvcc.

find_program(KEEL_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
cmake_dependent_option(KEEL_CUDA "Link the CUDA kernels" ON "KEEL_TORCH_HAS_CUDA;KEEL_NVCC" OFF)
set(KEEL_CUDA_ARCHITECTURE "90" CACHE STRING "Compute capability the kernels are compiled for (with its PTX)")

# Files with Hopper-only instructions; other devices use fallbacks.
set(hopper_sources skinny_gemm adapter_gemm)

set(KEEL_CUDA_OBJECTS)
if(KEEL_NVCC)
  file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/keel/kernels/cuda/*.cu")
  foreach(source ${cuda_sources})
    get_filename_component(name ${source} NAME_WE)
    set(object "${CMAKE_BINARY_DIR}/cuda/${name}.o")
    set(target "-gencode=arch=compute_${KEEL_CUDA_ARCHITECTURE},code=[compute_${KEEL_CUDA_ARCHITECTURE},sm_${KEEL_CUDA_ARCHITECTURE}]")
    if(name IN_LIST hopper_sources AND KEEL_CUDA_ARCHITECTURE STREQUAL "90")
      set(target -gencode=arch=compute_90a,code=sm_90a -DKEEL_HOPPER=1)
    endif()
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory "${CMAKE_BINARY_DIR}/cuda"
      COMMAND ${KEEL_NVCC} -std=c++20 -O3 -Xcompiler=-fPIC,-Wall -MD -MF ${object}.d -I${CMAKE_SOURCE_DIR}
              ${target} -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "nvcc ${name}.cu")
    list(APPEND KEEL_CUDA_OBJECTS ${object})
  endforeach()
endif()
add_custom_target(cuda_kernels DEPENDS ${KEEL_CUDA_OBJECTS})

# CUDA's compiler and libraries: of an installed toolkit, or the wheels of cmake/install-cuda.sh, whose folder is
# COXSWAIN_CUDA_HOME.
set(COXSWAIN_CUDA_HOME "" CACHE PATH "Where cmake/install-cuda.sh put the wheels; empty: a toolkit is installed")
if(COXSWAIN_CUDA_HOME)
  set(wheels ${COXSWAIN_CUDA_HOME}/site)
  set(CMAKE_CUDA_COMPILER ${wheels}/nvidia/cu13/bin/nvcc CACHE FILEPATH "")
endif()
# Ampere, Hopper and Blackwell of data centres; later ones take the last one's PTX.
set(CMAKE_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "")
enable_language(CUDA)
# CMake 3.25 does not know that CUDA 13 has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit 13 REQUIRED)

find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${wheels}/nvidia/cudnn/include REQUIRED)
find_library(CUDNN_LIBRARY cudnn HINTS ${wheels}/nvidia/cudnn/lib REQUIRED)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${wheels}/nvidia/nccl/include REQUIRED)
find_library(NCCL_LIBRARY nccl HINTS ${wheels}/nvidia/nccl/lib REQUIRED)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${wheels}/include REQUIRED)
add_library(cudnn::cudnn UNKNOWN IMPORTED)
set_target_properties(cudnn::cudnn PROPERTIES
  IMPORTED_LOCATION ${CUDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
add_library(nccl::nccl UNKNOWN IMPORTED)
set_target_properties(nccl::nccl PROPERTIES
  IMPORTED_LOCATION ${NCCL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
add_library(cudnn::frontend INTERFACE IMPORTED)
set_target_properties(cudnn::frontend PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_FRONTEND_INCLUDE_DIR}
  INTERFACE_COMPILE_DEFINITIONS CUDNN_FRONTEND_SKIP_JSON_LIB)

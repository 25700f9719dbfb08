# OneDnn::OneDnn: Debian's 2.6 (its own package file wants OpenCL headers) or any 3.x found through CMAKE_PREFIX_PATH.
find_path(OneDnn_INCLUDE_DIR dnnl.hpp)
find_library(OneDnn_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDnn REQUIRED_VARS OneDnn_LIBRARY OneDnn_INCLUDE_DIR)
if(OneDnn_FOUND AND NOT TARGET OneDnn::OneDnn)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_library(OneDnn::OneDnn UNKNOWN IMPORTED)
  set_target_properties(OneDnn::OneDnn PROPERTIES
    IMPORTED_LOCATION ${OneDnn_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OneDnn_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
endif()

# One static library a folder, one test program a folder. Sources are what the folder holds.

add_library(coxswain_options INTERFACE)
target_include_directories(coxswain_options INTERFACE ${PROJECT_SOURCE_DIR})
# Without contraction chosen by the compiler: the same sums on every machine of one instruction set.
# -Wno-subobject-linkage: which takes a source of a unity build for a header.
foreach(flag -Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-subobject-linkage -ffp-contract=off)
  target_compile_options(coxswain_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${flag}>)
endforeach()

# For what no training step waits for: compiled in two thirds of the time, and no slower for it where a file or a socket is
# what it waits for.
set(coxswain_brief $<$<CONFIG:Release>:-O1>)

# coxswain_library(NAME [LINK targets...]): all .cc files of this folder, main.cc and build.cc excepted.
function(coxswain_library name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/(main|build)\\.cc$")
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC coxswain_options ${arg_LINK})
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE coxswain_options ${arg_LINK})
  endif()
endfunction()

# coxswain_test(NAME [LINK targets...]): all *_test.cc of this folder as one program and one ctest entry.
function(coxswain_test name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE test_support ${arg_LINK})
  target_compile_options(${name} PRIVATE ${coxswain_brief})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

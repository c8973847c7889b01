# tw_folder(NAME [HOT pattern...] [DEPENDS folder...] [EXCLUDE file...])
#
# Declares the library tw_NAME from tilewright/NAME and its sub-folders. It links the libraries of DEPENDS, by
# default of every folder declared before. A folder without sources gives an interface library, so that
# headers alone can be used. HOT names the sources that run for each element and are optimised in full; what runs once
# for a program is compiled with -O1, which takes a third less time than -O2.
set(TILEWRIGHT_FOLDERS "")

# What nearly every source includes, compiled once. A source still includes what it uses.
set(TILEWRIGHT_PRECOMPILED <algorithm> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <string>
    <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)

# Options, macros and precompiled headers of the sources of tw_NAME, compiled as TARGET at LEVEL: that of the preset
# where it is "" or where sanitizers are on, else -O1.
function(tw_compile_folder name target level)
  target_link_libraries(${target} PRIVATE tw_options)
  if(TILEWRIGHT_SANITIZED)
    set(level "")
  endif()
  if(level AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  endif()
  target_compile_definitions(${target} PRIVATE TILEWRIGHT_VERSION="${PROJECT_VERSION}")
  # Precompiled headers serve targets of the same options: the first of each level makes them.
  get_property(maker GLOBAL PROPERTY tw_precompiled${level})
  if(maker)
    target_precompile_headers(${target} REUSE_FROM ${maker})
  else()
    target_precompile_headers(${target} PRIVATE ${TILEWRIGHT_PRECOMPILED})
    set_property(GLOBAL PROPERTY tw_precompiled${level} ${target})
  endif()
endfunction()

function(tw_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOT;DEPENDS;EXCLUDE")
  set(folder ${PROJECT_SOURCE_DIR}/tilewright/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cc)
  foreach(file IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources ${folder}/${file})
  endforeach()
  if(NOT arg_DEPENDS)
    set(arg_DEPENDS ${TILEWRIGHT_FOLDERS})
  endif()
  list(REVERSE arg_DEPENDS)  # the linker wants users before what they use
  list(TRANSFORM arg_DEPENDS PREPEND tw_ OUTPUT_VARIABLE libraries)

  if(sources)
    set(hot "")
    if(arg_HOT)
      list(TRANSFORM arg_HOT PREPEND ${folder}/)
      file(GLOB hot CONFIGURE_DEPENDS ${arg_HOT})
      list(REMOVE_ITEM sources ${hot})
    endif()
    if(sources AND hot)
      add_library(tw_${name}_hot OBJECT ${hot})
      tw_compile_folder(${name} tw_${name}_hot "")
      target_include_directories(tw_${name}_hot PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
      target_link_libraries(tw_${name}_hot PRIVATE ${libraries} tw_dependencies)
      add_library(tw_${name} STATIC ${sources} $<TARGET_OBJECTS:tw_${name}_hot>)
      tw_compile_folder(${name} tw_${name} -O1)
    elseif(hot)
      add_library(tw_${name} STATIC ${hot})
      tw_compile_folder(${name} tw_${name} "")
    else()
      add_library(tw_${name} STATIC ${sources})
      tw_compile_folder(${name} tw_${name} -O1)
    endif()
    set(scope PUBLIC)
  else()
    add_library(tw_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(tw_${name} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tw_${name} ${scope} ${libraries} tw_dependencies)
  set(TILEWRIGHT_FOLDERS ${TILEWRIGHT_FOLDERS} ${name} PARENT_SCOPE)
endfunction()

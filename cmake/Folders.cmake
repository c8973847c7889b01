# tw_folder(NAME [ONCE] [DEPENDS folder...] [EXCLUDE file...])
#
# Declares the library tw_NAME from tilewright/NAME and its sub-folders. It links the libraries of DEPENDS, by
# default of every folder declared before. A folder without sources gives an interface library, so that
# headers alone can be used. ONCE: the code runs once for a program and not for its elements, so that it is compiled
# with -O1, which takes a third less time than -O2.
set(TILEWRIGHT_FOLDERS "")

# What nearly every source includes, compiled once. A source still includes what it uses.
set(TILEWRIGHT_PRECOMPILED <algorithm> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <string>
    <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)

function(tw_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONCE" "" "DEPENDS;EXCLUDE")
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
    add_library(tw_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(tw_${name} PRIVATE tw_options)
    if(arg_ONCE AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
      target_compile_options(tw_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    target_compile_definitions(tw_${name} PRIVATE TILEWRIGHT_VERSION="${PROJECT_VERSION}")
    # Precompiled headers serve targets of the same options: the first folder of each kind makes them.
    get_property(maker GLOBAL PROPERTY tw_precompiled_${arg_ONCE})
    if(maker)
      target_precompile_headers(tw_${name} REUSE_FROM ${maker})
    else()
      target_precompile_headers(tw_${name} PRIVATE ${TILEWRIGHT_PRECOMPILED})
      set_property(GLOBAL PROPERTY tw_precompiled_${arg_ONCE} tw_${name})
    endif()
  else()
    add_library(tw_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(tw_${name} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(tw_${name} ${scope} ${libraries} tw_dependencies)
  set(TILEWRIGHT_FOLDERS ${TILEWRIGHT_FOLDERS} ${name} PARENT_SCOPE)
endfunction()

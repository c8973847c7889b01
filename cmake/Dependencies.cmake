# Dependencies come from installed packages, or all header-only from TILEWRIGHT_DEPS/include
# (scripts/collect_headers.sh fills such a folder).
#
#   tw_dependencies       fmt, nlohmann-json, toml++, xxHash, threads, dlopen: every folder
#   tw_cli_dependencies   CLI11: the command only
#   tw_xml                pugixml: diagrams only
find_package(Threads REQUIRED)
add_library(tw_dependencies INTERFACE)
add_library(tw_cli_dependencies INTERFACE)
target_link_libraries(tw_dependencies INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(tw_dependencies INTERFACE XXH_INLINE_ALL)

function(tw_require_header header package)
  string(MAKE_C_IDENTIFIER "TILEWRIGHT_HEADER_${header}" variable)
  if(TILEWRIGHT_DEPS)
    if(NOT EXISTS ${TILEWRIGHT_DEPS}/include/${header})
      message(FATAL_ERROR "TILEWRIGHT_DEPS: ${TILEWRIGHT_DEPS}/include/${header} is missing; "
                          "fill the folder with scripts/collect_headers.sh where ${package} is installed")
    endif()
    return()
  endif()
  find_path(${variable} ${header})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "${header} not found: install ${package} (scripts/setup.sh does), "
                        "or give a folder of headers with -DTILEWRIGHT_DEPS=DIR")
  endif()
  # CMake drops folders that the compiler searches anyhow, such as /usr/include.
  target_include_directories(tw_dependencies SYSTEM INTERFACE ${${variable}})
endfunction()

tw_require_header(fmt/format.h libfmt-dev)
tw_require_header(CLI/CLI.hpp libcli11-dev)
tw_require_header(nlohmann/json.hpp nlohmann-json3-dev)
tw_require_header(toml++/toml.h libtomlplusplus-dev)
tw_require_header(xxhash.h libxxhash-dev)
tw_require_header(pugixml.hpp libpugixml-dev)

if(TILEWRIGHT_DEPS)
  target_include_directories(tw_dependencies SYSTEM INTERFACE ${TILEWRIGHT_DEPS}/include)
  target_compile_definitions(tw_dependencies INTERFACE FMT_HEADER_ONLY)
else()
  find_package(fmt REQUIRED)
  target_link_libraries(tw_dependencies INTERFACE fmt::fmt)
endif()
target_link_libraries(tw_cli_dependencies INTERFACE tw_dependencies)

# pugixml: the package's library; of a folder its source, compiled with what includes it, or a library that was copied along.
add_library(tw_xml INTERFACE)
if(TILEWRIGHT_DEPS AND EXISTS ${TILEWRIGHT_DEPS}/include/pugixml.cpp)
  target_compile_definitions(tw_xml INTERFACE PUGIXML_HEADER_ONLY)
elseif(TILEWRIGHT_DEPS)
  if(NOT EXISTS ${TILEWRIGHT_DEPS}/lib/libpugixml.a)
    message(FATAL_ERROR "TILEWRIGHT_DEPS: neither ${TILEWRIGHT_DEPS}/include/pugixml.cpp nor ${TILEWRIGHT_DEPS}/lib/libpugixml.a "
                        "is there; fill the folder with scripts/collect_headers.sh where libpugixml-dev is installed")
  endif()
  target_link_libraries(tw_xml INTERFACE ${TILEWRIGHT_DEPS}/lib/libpugixml.a)
else()
  find_package(pugixml REQUIRED)
  target_link_libraries(tw_xml INTERFACE pugixml::pugixml)
endif()

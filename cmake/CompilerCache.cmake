# Uses ccache where it is installed. The working folder is left out of the hash, so that build folders of one
# checkout share their entries; compile commands therefore hold no absolute path into a build folder. The sloppiness
# is what ccache asks for where headers are precompiled; it takes what a file depends on from the compiler's list of
# dependencies rather than from a preprocessor run of its own.
find_program(TILEWRIGHT_CCACHE ccache)
mark_as_advanced(TILEWRIGHT_CCACHE)
if(TILEWRIGHT_CCACHE)
  foreach(language C CXX)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER
          ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${TILEWRIGHT_CCACHE})
    endif()
  endforeach()
endif()

# tw_options: flags of every target of this project, not handed on to those who link it.
add_library(tw_options INTERFACE)
target_compile_options(tw_options INTERFACE
  -Wall -Wextra -Wshadow
  -Wno-missing-field-initializers  # designated initialisers leave the rest at their defaults on purpose
  -ffp-contract=off                # the reference evaluator's bits do not depend on the host's FMA
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tw_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # lets ccache see them
  # GCC 12 and 13 report these falsely inside std::string, std::variant and std::vector once inlined.
  target_compile_options(tw_options INTERFACE
    -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-pointer>
    # An Expr names an interned node, which outlives the Expr that a reference came through.
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>
    # Of a unity build GCC believes that every file but one is a header.
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Collecting garbage below this heap (kilobytes) takes a twentieth of a large unit's time.
  target_compile_options(tw_options INTERFACE --param=ggc-min-heapsize=400000 --param=ggc-min-expand=100)
endif()
if(TILEWRIGHT_WERROR)
  target_compile_options(tw_options INTERFACE -Werror)
endif()

# Arrow C++ reads CSV, gzip, zstd and Parquet files. Without it these are errors that name the fix. Only the sources that
# use Arrow get its headers, so that installing it recompiles no others.

# Headers and libraries of Arrow are in the Python package pyarrow: in torch's site-packages, else python3's.
set(KEEL_PYARROW "" CACHE PATH "Folder of a pyarrow package (with include/ and libparquet.so.*)")
set(arrow_folder "${KEEL_PYARROW}")
if(NOT arrow_folder)
  get_filename_component(arrow_folder "${KEEL_TORCH_FOLDER}/../pyarrow" ABSOLUTE)
endif()
if(NOT EXISTS "${arrow_folder}/include/parquet/arrow/reader.h")
  execute_process(
    COMMAND python3 -c "import importlib.util as u; s = u.find_spec('pyarrow'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE arrow_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(GLOB arrow_libraries "${arrow_folder}/libparquet.so.*00" "${arrow_folder}/libarrow.so.*00")
list(LENGTH arrow_libraries arrow_count)
set(ARROW_FOUND OFF)
if(EXISTS "${arrow_folder}/include/parquet/arrow/reader.h" AND arrow_count EQUAL 2)
  file(STRINGS "${arrow_folder}/include/arrow/util/config.h" arrow_version REGEX "define ARROW_VERSION_MAJOR")
  string(REGEX MATCH "[0-9]+" arrow_version "${arrow_version}")
  if(arrow_version GREATER_EQUAL 21)  # its readers return a Result
    set(ARROW_FOUND ON)
  endif()
endif()
cmake_dependent_option(KEEL_ARROW "Read CSV, gzip, zstd and Parquet files (Arrow C++ of the Python package pyarrow, from 21 on)"
                       ON ARROW_FOUND OFF)
if(NOT KEEL_ARROW)
  message(STATUS "Data files: Arrow is off (KEEL_ARROW is OFF, or pyarrow was not found); JSON lines and lists work")
endif()

# keel_use_in(DEFINITION INCLUDE SOURCE...): compiles sources with a library's headers and definition, without the
# precompiled header, which lacks them.
function(keel_use_in definition include)
  foreach(source ${ARGN})
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS ${definition})
    if(NOT include IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)  # -isystem would reorder the implicit ones
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS "-isystem${include}")
    endif()
    set_property(SOURCE ${source} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endfunction()

function(keel_link_data target)
  if(NOT KEEL_ARROW)
    return()
  endif()
  set(arrow_sources keel/core/files/parquet_file.cpp keel/data/rows/arrow_json.cpp keel/data/rows/csv_rows.cpp
      keel/data/rows/data_format.cpp keel/data/rows/decompressor.cpp keel/data/rows/parquet_rows.cpp
      keel/record/tokens/token_columns.cpp keel/record/tokens/token_file.cpp keel/record/tokens/token_reader.cpp)
  if(KEEL_UNITY)
    # One object, since Arrow's headers take four seconds to compile.
    set(arrow_batch ${CMAKE_BINARY_DIR}/batches/${target}/arrow.cpp)
    list(TRANSFORM arrow_sources PREPEND ${CMAKE_SOURCE_DIR}/)
    keel_unity_file(${arrow_batch} ${arrow_sources})
    target_sources(${target} PRIVATE ${arrow_batch})
    set(arrow_sources ${arrow_batch})
  endif()
  keel_use_in(KEEL_HAS_ARROW ${arrow_folder}/include ${arrow_sources})
  target_link_libraries(${target} PRIVATE ${arrow_libraries} "-Wl,-rpath,${arrow_folder}")
  message(STATUS "Arrow ${arrow_version} in ${arrow_folder}")
endfunction()

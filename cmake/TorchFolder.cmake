# Finds LibTorch. Torch.cmake includes this file, and scripts/bootstrap.sh runs it with `cmake -P` to print the folder.
#
# KEEL_TORCH (cache, then environment; a torch package or an unpacked libtorch), the folder this build folder already uses,
# CMAKE_PREFIX_PATH, .deps/venv, python3. The first one with version 2.11 or later is used. A build keeps its LibTorch
# if another appears later, since a change would recompile everything.

# Sets `result` to the version of the LibTorch in `folder`, or to nothing.
function(keel_torch_version folder result)
  set(${result} "" PARENT_SCOPE)
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS "${folder}/include/${header}" AND EXISTS "${folder}/lib/libtorch_cpu.so")
      file(STRINGS "${folder}/include/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
      string(JOIN "." version ${numbers})
      set(${result} "${version}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets KEEL_TORCH_FOLDER and KEEL_TORCH_VERSION; both are empty if LibTorch 2.11 or later was not found.
function(keel_find_torch)
  set(candidates)
  foreach(folder ${KEEL_TORCH} $ENV{KEEL_TORCH})
    get_filename_component(folder "${folder}" ABSOLUTE)
    keel_torch_version("${folder}" version)
    if(NOT version OR version VERSION_LESS 2.11)
      message(FATAL_ERROR "KEEL_TORCH is '${folder}', which holds no LibTorch from 2.11 on (version found: '${version}').\n"
                          "Give a torch package folder (with include/ and lib/libtorch_cpu.so), or unset KEEL_TORCH.")
    endif()
    list(APPEND candidates ${folder})
  endforeach()
  list(APPEND candidates ${KEEL_TORCH_FOLDER})
  string(REPLACE ":" ";" environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  foreach(prefix ${CMAKE_PREFIX_PATH} ${environment_prefixes})
    # torch.utils.cmake_prefix_path points at torch/share/cmake.
    list(APPEND candidates ${prefix} ${prefix}/torch ${prefix}/../..)
  endforeach()
  file(GLOB own "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.deps/venv/lib/python3*/site-packages/torch")
  list(APPEND candidates ${own} python3)

  set(KEEL_TORCH_FOLDER "" PARENT_SCOPE)
  set(KEEL_TORCH_VERSION "" PARENT_SCOPE)
  foreach(candidate ${candidates})
    if(candidate STREQUAL python3)
      execute_process(
        COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
        OUTPUT_VARIABLE candidate OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
    keel_torch_version("${candidate}" version)
    if(version AND NOT version VERSION_LESS 2.11)
      get_filename_component(candidate "${candidate}" REALPATH)
      set(KEEL_TORCH_FOLDER "${candidate}" PARENT_SCOPE)
      set(KEEL_TORCH_VERSION "${version}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  keel_find_torch()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${KEEL_TORCH_FOLDER}")
endif()

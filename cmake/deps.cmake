# Finds outside headers. Nothing of them is committed.
if(NOT PJRT_INCLUDE_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u, pathlib as p; print(p.Path(list(u.find_spec('xla_plugins').submodule_search_locations)[0], 'xla_cpu_pjrt', 'include'))"
    OUTPUT_VARIABLE PJRT_INCLUDE_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE pjrt_rc)
  if(pjrt_rc OR NOT EXISTS "${PJRT_INCLUDE_DIR}/pjrt_c_api.h")
    message(FATAL_ERROR "pjrt_c_api.h not found: pip install xla-cpu-pjrt==0.0.1, or set PJRT_INCLUDE_DIR")
  endif()
endif()
find_path(XXHASH_INCLUDE_DIR xxhash.h)
if(NOT XXHASH_INCLUDE_DIR)
  # The sdist of the Python package carries the single header; pip checks its hash.
  set(xx_dir ${CMAKE_BINARY_DIR}/xxhash)
  execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/fetch_xxhash.py ${xx_dir} RESULT_VARIABLE xx_rc)
  if(xx_rc OR NOT EXISTS "${xx_dir}/xxhash.h")
    message(FATAL_ERROR "xxhash.h not found: install libxxhash-dev, or set XXHASH_INCLUDE_DIR")
  endif()
  set(XXHASH_INCLUDE_DIR ${xx_dir} CACHE PATH "" FORCE)
endif()

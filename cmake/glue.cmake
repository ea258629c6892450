# The C++ glue. PyTorch's headers are system headers; its ABI decides the name of the module.
# A half-built package of ours must not be loaded by this import.
execute_process(COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 ${Python_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path); print(torch.__version__.split('+')[0]); print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_rc)
if(torch_rc)
  message(FATAL_ERROR "PyTorch not found by ${Python_EXECUTABLE}: pip install torch==2.13.0")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 torch_prefix)
get_filename_component(TORCH_ROOT "${torch_prefix}/../.." ABSOLUTE)
file(GLOB GLUE_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/glue/*.cpp)
add_library(_C MODULE ${GLUE_SOURCES})
set_target_properties(_C PROPERTIES PREFIX "" OUTPUT_NAME "_C" BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
target_include_directories(_C PRIVATE include glue)
target_include_directories(_C SYSTEM PRIVATE ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include ${Python_INCLUDE_DIRS})
target_compile_options(_C PRIVATE -Wall -Wextra -Werror -fvisibility=hidden)
target_link_directories(_C PRIVATE ${TORCH_ROOT}/lib)
target_link_libraries(_C PRIVATE tpt c10 torch_cpu torch torch_python)
set_target_properties(tpt PROPERTIES BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
install(TARGETS tpt _C LIBRARY DESTINATION torch_tpu)
# For work in the tree: put both libraries beside the Python files. A wheel's build leaves the tree alone.
if(NOT SKBUILD)
  add_custom_target(inplace ALL
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:tpt> ${CMAKE_SOURCE_DIR}/torch_tpu/
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:_C> ${CMAKE_SOURCE_DIR}/torch_tpu/
    DEPENDS tpt _C)
endif()

# cmake -DPROGRAM=... -DFILE=... -P CompareOutput.cmake: fails unless PROGRAM prints exactly what FILE holds.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE result)
file(READ ${FILE} stored)
if(NOT result EQUAL 0 OR NOT printed STREQUAL stored)
  message(FATAL_ERROR "${FILE} is not what ${PROGRAM} prints; run: ${PROGRAM} > ${FILE}")
endif()

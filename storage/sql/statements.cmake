# culvert_make_statements(FOLDER SQL... SCHEMA...): the build rules for FOLDER/culvert_statements.{h,c}, the statements
# of these .sql files, and FOLDER/culvert_reads.{h,c}, the tables of the reads that they declare.
find_program(AWK NAMES awk mawk gawk REQUIRED)
set(CULVERT_AWK_FOLDER ${CMAKE_CURRENT_LIST_DIR})
function(culvert_make_statements folder)
  cmake_parse_arguments(ARG "" "" "SQL;SCHEMA" ${ARGN})
  set(statements ${CULVERT_AWK_FOLDER}/statements.awk)
  set(reads ${CULVERT_AWK_FOLDER}/reads.awk)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${folder}/culvert_reads.h ${folder}/culvert_reads.c
    COMMAND ${AWK} -v part=h -f ${reads} ${ARG_SCHEMA} ${ARG_SQL} > ${folder}/culvert_reads.h
    COMMAND ${AWK} -v part=c -f ${reads} ${ARG_SCHEMA} ${ARG_SQL} > ${folder}/culvert_reads.c
    DEPENDS ${ARG_SQL} ${ARG_SCHEMA} ${reads}
    VERBATIM)
  add_custom_command(
    OUTPUT ${folder}/culvert_statements.h ${folder}/culvert_statements.c
    COMMAND ${AWK} -v part=h -f ${statements} ${ARG_SQL} > ${folder}/culvert_statements.h
    COMMAND ${AWK} -v part=c -f ${statements} ${ARG_SQL} > ${folder}/culvert_statements.c
    DEPENDS ${ARG_SQL} ${statements}
    VERBATIM)
endfunction()

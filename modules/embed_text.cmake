# Turns a text file into a C array: INPUT, OUTPUT, NAME, HEADER.
file(READ ${INPUT} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR count "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," list "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" list "${list}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst char ${NAME}[] = {\n${list}0};\nconst size_t ${NAME}_bytes = ${count};\n")

#include "server/ui/ui_embedded.h"

#ifdef CULVERT_UI_PACK
extern const char ui_embedded_start[], ui_embedded_end[];
__asm__(".pushsection .rodata\n"
        ".global ui_embedded_start\n.hidden ui_embedded_start\n"
        ".global ui_embedded_end\n.hidden ui_embedded_end\n"
        "ui_embedded_start:\n.incbin \"" CULVERT_UI_PACK "\"\nui_embedded_end:\n.byte 0\n"
        ".popsection\n");

struct str ui_embedded_pack(void)
{
    return str_of(ui_embedded_start, (size_t)(ui_embedded_end - ui_embedded_start));
}
#else
struct str ui_embedded_pack(void)
{
    return STR_EMPTY;
}
#endif

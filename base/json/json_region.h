// json_region: memory for JSON trees that live no longer than one function: what is built between
// begin and end is taken from one piece and given back as a whole, which spares some hundred small
// allocations a report. Nothing that jansson made in between may be used after the end, nor given
// to anything but json_decref(): no text of json_dumps(). Where json_region_install() was not
// called nothing changes. Any thread; each has a piece of its own.
#ifndef CULVERT_BASE_JSON_JSON_REGION_H
#define CULVERT_BASE_JSON_JSON_REGION_H

// Once in a process, before it has other threads: jansson keeps one pair of functions for all.
void json_region_install(void);

// May be nested: the outermost end counts. What does not fit is allocated as ever.
void json_region_begin(void);
void json_region_end(void);

#endif

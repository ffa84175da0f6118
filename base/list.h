// list: a doubly linked list of members of their owners' structs, for what is taken out of the
// middle: a head and its entries are the same type, and an entry that is in no list points to
// itself. One thread, or its owner's mutex.
#ifndef CULVERT_BASE_LIST_H
#define CULVERT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define LIST_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *list) // a head, or an entry that is in no list
{
    list->next = list->prev = list;
}

// Of a head: nothing is in it. Of an entry: it is in no list.
static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_remove(struct list *entry) // of the list it is in, if any
{
    entry->next->prev = entry->prev;
    entry->prev->next = entry->next;
    list_init(entry);
}

static inline void list_add_last(struct list *head, struct list *entry) // unless it is in a list
{
    if (!list_is_empty(entry)) return;
    entry->next = head;
    entry->prev = head->prev;
    head->prev->next = entry;
    head->prev = entry;
}

#endif

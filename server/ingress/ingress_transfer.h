// ingress_transfer: a connection on its way from one loop's listener to another's. HTTP/1.1
// connections that rest go to the loop of the session that has answered their last requests, so
// that their calls need no second thread. What counts them (caps by address and account) does not
// notice.
#ifndef CULVERT_SERVER_INGRESS_TRANSFER_H
#define CULVERT_SERVER_INGRESS_TRANSFER_H

#include "server/ingress/ingress_connection.h"

enum { INGRESS_TRANSFER_AFTER = 8 }; // answers in a row from the same other loop, before it is thought of again

// On the connection's loop, out of its protocol's on_turn. True: the connection has left, and its
// front is gone. False: something is on its way on it, or it would be of no use.
bool ingress_transfer_begin(struct ingress_connection *connection, unsigned loop_index);
// Goes on with a connection of another loop's listener; a listener that has stopped ends it.
void ingress_take_over(struct ingress *ingress, struct ingress_transfer *transfer);
void ingress_transfer_drop(struct ingress_transfer *transfer); // any thread: nobody takes it over

#endif

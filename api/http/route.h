// route: a path of the HTTP API and its handler. The table is api_options.routes; those of the API
// itself stand in api/http/router.c. Constant data.
#ifndef CULVERT_API_HTTP_ROUTE_H
#define CULVERT_API_HTTP_ROUTE_H

struct api_request;

enum api_body { API_NO_BODY, API_JSON_BODY, API_EVENTS_BODY, API_FORM_BODY };

enum api_caller {
    API_ANYBODY = 1 /* needs no credential */,
    API_USER,
    API_RUNTIME,
    API_USER_OR_RUNTIME,
    API_USER_OWN, // what is the user's own, whatever the role
    API_ADMIN
};

// Several may have one path with different methods.
struct api_route {
    const char *path;    // {name} is any segment, see api_request.path_values
    const char *methods; // "GET, POST": also the Allow header
    enum api_caller caller;
    enum api_body body;
    void (*handle)(struct api_request *request);
};

#endif

// The page of the OpenAPI document: it reads /openapi.json of the same host and nothing else.
#include "api/http/request.h"
#include "api/rest/stored_route.h"

static const char page[] =
    "<!doctype html><html lang=en><meta charset=utf-8><title>Culvert REST</title>"
    "<meta name=viewport content=\"width=device-width\"><style>"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{font-family:ui-monospace,monospace}details{border-top:1px solid #ccc;padding:.4rem 0}"
    "summary{cursor:pointer}b{display:inline-block;min-width:4.5rem}pre{background:#f4f4f4;padding:.6rem;overflow:auto}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#eee}pre{background:#222}}</style>"
    "<h1>REST</h1><p>The document is <a href=/openapi.json>/openapi.json</a> (OpenAPI 3.1). Requests carry an API key: "
    "<code>Authorization: KEY</code>.<div id=routes>Loading</div><script src=/v1/page.js></script></html>";

static const char script[] =
    "fetch('/openapi.json').then(r=>r.json()).then(d=>{const at=document.getElementById('routes');at.textContent='';"
    "for(const [path,methods] of Object.entries(d.paths))for(const [method,o] of Object.entries(methods)){"
    "const add=(to,name,text)=>{const "
    "e=document.createElement(name);if(text!==undefined)e.textContent=text;to.append(e);return e};"
    "const box=add(at,'details'),head=add(box,'summary');add(head,'b',method.toUpperCase());add(head,'code',path);"
    "head.append(' '+o.summary);"
    "for(const p of o.parameters)add(box,'div',p.name+' ('+p.in+(p.required?', required':'')+')');"
    "const show=(title,value)=>{if(value){add(box,'div',title);add(box,'pre',JSON.stringify(value,null,1))}};"
    "const of=c=>c&&Object.values(c.content)[0].schema;show('Body',of(o.requestBody));"
    "const ok=Object.entries(o.responses).find(([s])=>s[0]==='2');show('Answer '+ok[0],of(ok[1]))}})"
    ".catch(e=>{document.getElementById('routes').textContent='The document could not be loaded: '+e})";

void rest_page(struct api_request *request)
{
    api_add_header(request, STR("content-security-policy"),
                   STR("default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'"));
    api_respond_compressed(request, 200, "text/html; charset=utf-8", str_of(page, sizeof page - 1));
}

void rest_script(struct api_request *request)
{
    api_respond_compressed(request, 200, "text/javascript; charset=utf-8", str_of(script, sizeof script - 1));
}

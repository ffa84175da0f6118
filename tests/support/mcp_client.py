"""Calls tools over MCP with the reference SDK: a JSON object on stdin, one on stdout.

in:  {"url", "ca", "key", "mode": "auto" or "legacy", "calls": [[tool, arguments], ...]}
out: {"version", "server", "tools": [...], "results": [[text, is it an error], ...]}
"""

import asyncio
import json
import ssl
import sys

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client


async def run(wanted):
    context = ssl.create_default_context(cafile=wanted["ca"])
    async with httpx2.AsyncClient(headers={"Authorization": wanted["key"]}, verify=context, timeout=30) as http:
        async with Client(streamable_http_client(wanted["url"], http_client=http), mode=wanted["mode"]) as client:
            tools = (await client.list_tools()).tools
            results = [await client.call_tool(name, arguments) for name, arguments in wanted["calls"]]
            return {
                "version": client.session.protocol_version, "server": client.server_info.model_dump(mode="json"),
                "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools],
                "results": [[result.content[0].text, bool(result.is_error)] for result in results],
            }


json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)

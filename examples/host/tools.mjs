// An MCP server on standard input and output, with one tool. It ends when its standard input is closed.
import { createInterface } from "node:readline"

const answer = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`)

const tool = {
  name: "stock",
  description: "Tells how many pieces of an article are in stock.",
  inputSchema: { type: "object", properties: { article: { type: "string" } }, required: ["article"] }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === "initialize") {
    const serverInfo = { name: "warehouse", version: "1.0.0" }
    answer(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo })
  }
  if (method === "ping") answer(id, {})
  if (method === "tools/list") answer(id, { tools: [tool] })
  if (method === "tools/call") {
    const text = `${params.arguments.article.length} pieces`
    setTimeout(() => answer(id, { content: [{ type: "text", text }] }), 20)
  }
})

/**
 * Conversations of captured requests, as prompts of effect/ai.
 *
 * What only the model understood that made a part (thinking, results of a provider's own tools) is marked as another
 * model's, as after a switch.
 */
import { Prompt } from "effect/ai"

type Json = any
type Message = Prompt.MessageEncoded
type Part = Prompt.AssistantMessagePartEncoded

/** The maker of all assistant parts: a model that is in no chain. */
const options = { outlast: { provider: "captured", model: "captured" } }

const text = (said: string): { type: "text"; text: string } => ({ type: "text", text: said })
const thought = (said: unknown): Part => ({ type: "reasoning", text: String(said ?? ""), options })
const call = (id: unknown, name: string, params: unknown, providerExecuted = false): Part => ({
  type: "tool-call",
  id: String(id),
  name,
  params,
  providerExecuted,
  options
})
const result = (
  id: unknown,
  name: string,
  value: unknown,
  providerExecuted = false
): Prompt.ToolResultPartEncoded => ({
  type: "tool-result",
  id: String(id),
  name,
  isFailure: false,
  result: value ?? null,
  providerExecuted,
  ...(providerExecuted ? { options } : {})
})
const file = (mediaType: string, data: string): Prompt.FilePartEncoded => ({
  type: "file",
  mediaType,
  data: /^https?:/.test(data) ? new URL(data) : data
})

/** A part that the prompts of effect/ai do not have: the model reads it as text. */
const rest = (part: Json) => text(`[${part.type ?? Object.keys(part).join()}]`)
const list = (content: Json): ReadonlyArray<Json> =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? [])

const ofUrl = (url: string): Prompt.FilePartEncoded => {
  const [, mediaType, data] = /^data:([^;,]+)[^,]*,(.*)$/s.exec(url) ?? []
  return mediaType === undefined || data === undefined ? file("image/*", url) : file(mediaType, data)
}

const chatPart = (part: Json) => {
  switch (part.type) {
    case "text":
      return text(part.text)
    case "image_url":
      return ofUrl(part.image_url.url ?? part.image_url)
    case "file":
      return part.file.file_data === undefined ? rest(part) : ofUrl(part.file.file_data)
    default:
      return rest(part)
  }
}

const chat = ({ messages }: Json): ReadonlyArray<Message> => {
  const names = new Map<string, string>()
  return messages.map((message: Json): Message => {
    switch (message.role) {
      case "system":
      case "developer":
        return {
          role: "system",
          content: list(message.content)
            .map((part) => part.text)
            .join("\n")
        }
      case "user":
        return { role: "user", content: list(message.content).map(chatPart) }
      case "tool":
        return {
          role: "tool",
          content: [result(message.tool_call_id, names.get(message.tool_call_id) ?? "tool", message.content)]
        }
      default: {
        const calls: ReadonlyArray<Json> = message.tool_calls ?? []
        for (const { id, function: own } of calls) names.set(id, own.name)
        return {
          role: "assistant",
          content: [
            ...(message.reasoning === undefined ? [] : [thought(message.reasoning)]),
            ...list(message.content).map((part) =>
              part.type === "thinking" ? thought("…") : text(part.text)
            ),
            ...calls.map(({ id, function: own }) =>
              call(
                id,
                own.name,
                typeof own.arguments === "string" ? JSON.parse(own.arguments) : own.arguments
              )
            )
          ]
        }
      }
    }
  })
}

const claudePart = (part: Json) => {
  if (part.type === "text") return text(part.text)
  const { source } = part
  return source?.type === "base64"
    ? file(source.media_type, source.data)
    : source?.type === "url"
      ? file(part.type === "document" ? "application/pdf" : "image/png", source.url)
      : rest(part)
}

const claudeAnswer = (part: Json): Part => {
  switch (part.type) {
    case "text":
      return text(part.text)
    case "thinking":
    case "redacted_thinking":
      return thought(part.thinking)
    case "tool_use":
      return call(part.id, part.name, part.input)
    case "server_tool_use":
    case "mcp_tool_use":
      return call(part.id, part.name, part.input, true)
    default:
      return part.tool_use_id === undefined
        ? rest(part)
        : result(part.tool_use_id, "tool", part.content, true)
  }
}

const messages = ({ system, messages }: Json): ReadonlyArray<Message> => {
  const names = new Map<string, string>()
  const said = list(system).map((part): Message => ({ role: "system", content: part.text }))
  return [
    ...said,
    ...messages.flatMap(({ role, content }: Json): ReadonlyArray<Message> => {
      const parts = list(content)
      if (role === "system") {
        const texts = parts.filter((part) => part.type === "text")
        return texts.map((part) => ({ role: "system", content: part.text }))
      }
      if (role === "assistant") {
        for (const part of parts) if (part.type === "tool_use") names.set(part.id, part.name)
        return [{ role: "assistant", content: parts.map(claudeAnswer) }]
      }
      const results = parts.filter((part) => part.type === "tool_result")
      const others = parts.filter((part) => part.type !== "tool_result")
      return [
        ...(results.length === 0
          ? []
          : [
              {
                role: "tool" as const,
                content: results.map((part) =>
                  result(part.tool_use_id, names.get(part.tool_use_id) ?? "tool", part.content)
                )
              }
            ]),
        ...(others.length === 0 ? [] : [{ role: "user" as const, content: others.map(claudePart) }])
      ]
    })
  ]
}

/** Gemini's calls have no ids; a response belongs to the last call of its name. */
const gemini = (body: Json): ReadonlyArray<Message> => {
  let calls = 0
  const open = new Map<string, string>()
  const system = (body.systemInstruction ?? body.system_instruction)?.parts ?? []
  const said = system.map((part: Json): Message => ({ role: "system", content: part.text }))
  return [
    ...said,
    ...body.contents.flatMap(({ role, parts }: Json): ReadonlyArray<Message> => {
      if (role === "model") {
        return [
          {
            role: "assistant",
            content: parts.map((part: Json): Part => {
              const own = part.functionCall ?? part.function_call
              if (own === undefined) return part.thought === true ? thought(part.text) : text(part.text)
              const id = own.id ?? `call ${calls++}`
              open.set(own.name, id)
              return call(id, own.name, own.args ?? {})
            })
          }
        ]
      }
      const responses = parts.flatMap((part: Json) => part.functionResponse ?? part.function_response ?? [])
      const others = parts.flatMap((part: Json): ReadonlyArray<Prompt.UserMessagePartEncoded> => {
        const inline = part.inlineData ?? part.inline_data
        if (part.text !== undefined) return [text(part.text)]
        return inline === undefined ? [] : [file(inline.mimeType ?? inline.mime_type, inline.data)]
      })
      return [
        ...(responses.length === 0
          ? []
          : [
              {
                role: "tool" as const,
                content: responses.map((own: Json) => result(open.get(own.name), own.name, own.response))
              }
            ]),
        ...(others.length === 0 ? [] : [{ role: "user" as const, content: others }])
      ]
    })
  ]
}

const converse = (body: Json): ReadonlyArray<Message> => {
  const names = new Map<string, string>()
  return [
    ...(body.system ?? [])
      .filter((part: Json) => part.text !== undefined)
      .map((part: Json): Message => ({ role: "system", content: part.text })),
    ...body.messages.flatMap(({ role, content }: Json): ReadonlyArray<Message> => {
      if (role === "assistant") {
        return [
          {
            role,
            content: content.map((part: Json): Part => {
              if (part.toolUse === undefined) return part.text === undefined ? rest(part) : text(part.text)
              names.set(part.toolUse.toolUseId, part.toolUse.name)
              return call(part.toolUse.toolUseId, part.toolUse.name, part.toolUse.input)
            })
          }
        ]
      }
      const results = content.flatMap((part: Json) => part.toolResult ?? [])
      const others = content.filter((part: Json) => part.toolResult === undefined)
      return [
        ...(results.length === 0
          ? []
          : [
              {
                role: "tool" as const,
                content: results.map((own: Json) =>
                  result(own.toolUseId, names.get(own.toolUseId) ?? "tool", own.content)
                )
              }
            ]),
        ...(others.length === 0
          ? []
          : [
              {
                role: "user" as const,
                content: others.map((part: Json) => {
                  const { text: own, document } = part
                  if (own !== undefined) return text(own)
                  const bytes = document?.source?.bytes
                  return bytes === undefined ? rest(part) : file(`application/${document.format}`, bytes)
                })
              }
            ])
      ]
    })
  ]
}

const wires: Readonly<Record<string, (body: Json) => ReadonlyArray<Message>>> = {
  chat,
  messages,
  gemini,
  converse
}

/** The conversation of a request. `name` begins with its wire format. */
export const promptOf = (name: string, body: Json): Prompt.Prompt => {
  const read = wires[name.split("--")[0] ?? ""]
  return Prompt.make(read?.(body) ?? [])
}

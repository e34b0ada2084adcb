/**
 * Converts the prompt of an AI SDK call to an effect/ai prompt. `SpecPrompt` is the opposite direction.
 *
 * Metadata that the AI SDK carries from answer to prompt (signatures, item ids) is kept for the next turn. A part that
 * effect/ai cannot fully express carries its original (`OriginalPart`), and `SpecPrompt` sends the original. A file
 * stored at one provider is rejected at the others.
 */
import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolResultPart
} from "@ai-sdk/provider"
import { Predicate } from "effect"
import { Prompt } from "effect/ai"
import * as OriginalPart from "./OriginalPart.ts"
import * as Parts from "./SpecResponse.ts"

export const decode = (prompt: LanguageModelV4Prompt): Prompt.Prompt =>
  Prompt.fromMessages(messages(prompt.map(message)).map((made, i) => OriginalPart.attach(made, prompt[i])))

/** The messages as `Prompt.make` decodes them. Its schema is asked only for files, approvals and unusual fields. */
const messages = (encoded: ReadonlyArray<Prompt.MessageEncoded>): ReadonlyArray<Prompt.Message> => {
  const made: Array<Prompt.Message> = []
  for (const message of encoded) {
    const plain = plainMessage(message)
    if (plain === undefined) return Prompt.make(encoded).content
    made.push(plain)
  }
  return made
}

const plainMessage = ({ role, content, options }: Prompt.MessageEncoded): Prompt.Message | undefined => {
  if (typeof content === "string") {
    return role === "system" ? Prompt.makeMessage(role, { content, options }) : undefined
  }
  const parts: Array<Prompt.Part> = []
  for (const part of content) {
    const plain = plainPart(part)
    if (plain === undefined) return undefined
    parts.push(plain)
  }
  // `message` has put only parts of its role into a message.
  return role === "system" ? undefined : Prompt.makeMessage(role, { content: parts as never, options })
}

/** A part with the fields that its type allows. `options` are JSON already: see `Parts.metadataOf`. */
const plainPart = (part: Prompt.PartEncoded): Prompt.Part | undefined => {
  switch (part.type) {
    case "text":
    case "reasoning": {
      const { type, text, options } = part
      return typeof text === "string" ? Prompt.makePart(type, { text, options }) : undefined
    }
    case "tool-call": {
      const { type, id, name, params, providerExecuted = false, options } = part
      return isNamed(part) && typeof providerExecuted === "boolean"
        ? Prompt.makePart(type, { id, name, params, providerExecuted, options })
        : undefined
    }
    case "tool-result": {
      const { type, id, name, isFailure, result, providerExecuted = false, modelOutput, options } = part
      return isNamed(part) && typeof providerExecuted === "boolean" && modelOutput === undefined
        ? Prompt.makePart(type, { id, name, isFailure, result, providerExecuted, options })
        : undefined
    }
    default:
      return undefined
  }
}

const isNamed = ({ id, name }: { readonly id: unknown; readonly name: unknown }): boolean =>
  typeof id === "string" && typeof name === "string"

const message = (self: LanguageModelV4Message): Prompt.MessageEncoded => {
  switch (self.role) {
    case "system":
      return { role: "system", content: self.content, ...options(self) }
    case "user":
      return {
        role: "user",
        content: self.content.map((part) => (part.type === "text" ? text(part) : file(part))),
        ...options(self)
      }
    case "assistant":
      return { role: "assistant", content: self.content.map(assistantPart), ...options(self) }
    case "tool":
      return {
        role: "tool",
        content: self.content.map((part) =>
          part.type === "tool-result"
            ? toolResult(part, false)
            : {
                type: "tool-approval-response",
                approvalId: part.approvalId,
                approved: part.approved,
                ...(part.reason === undefined ? undefined : { reason: part.reason }),
                ...options(part)
              }
        ),
        ...options(self)
      }
  }
}

type AssistantPart = Extract<LanguageModelV4Message, { readonly role: "assistant" }>["content"][number]

const assistantPart = (part: AssistantPart): Prompt.AssistantMessagePartEncoded => {
  switch (part.type) {
    case "text":
      return text(part)
    case "reasoning":
      return { type: "reasoning", text: part.text, ...options(part) }
    case "file":
      return file(part)
    case "tool-call":
      return {
        type: "tool-call",
        id: part.toolCallId,
        name: part.toolName,
        params: part.input,
        providerExecuted: part.providerExecuted ?? false,
        ...options(part)
      }
    case "tool-result":
      return toolResult(part, true)
    case "custom":
      return { type: "text", text: "", options: custom(part) }
    case "reasoning-file":
      return { type: "reasoning", text: "", ...options(part) }
  }
}

/** The kind of a custom part names its provider, so the part belongs to that provider even without options. */
const custom = (part: Extract<AssistantPart, { readonly type: "custom" }>) => {
  const [provider = "", kind = ""] = part.kind.split(".", 2)
  const own: Prompt.ProviderOptions = options(part)?.options ?? {}
  const fields = own[provider]
  return {
    ...own,
    [provider]: { ...(Predicate.isObject(fields) ? Object.fromEntries(Object.entries(fields)) : {}), kind }
  }
}

const text = (part: { readonly text: string } & WithOptions): Prompt.TextPartEncoded => ({
  type: "text",
  text: part.text,
  ...options(part)
})

type File = Pick<LanguageModelV4FilePart, "mediaType" | "filename" | "data" | "providerOptions">

const file = (part: File): Prompt.FilePartEncoded => ({
  type: "file",
  mediaType: part.mediaType,
  data: content(part.data),
  ...(part.filename === undefined ? undefined : { fileName: part.filename }),
  ...options(part)
})

const content = (data: File["data"]): string | Uint8Array | URL => {
  switch (data.type) {
    case "data":
      return data.data
    case "url":
      return data.url
    case "text":
      return new TextEncoder().encode(data.text)
    case "reference":
      return OriginalPart.reference
  }
}

const toolResult = (
  part: LanguageModelV4ToolResultPart,
  providerExecuted: boolean
): Prompt.ToolResultPartEncoded => ({
  type: "tool-result",
  id: part.toolCallId,
  name: part.toolName,
  providerExecuted,
  ...output(part.output),
  ...options(part)
})

type Output = Pick<Prompt.ToolResultPartEncoded, "isFailure" | "result" | "modelOutput">

const output = (self: LanguageModelV4ToolResultPart["output"]): Output => {
  switch (self.type) {
    case "text":
    case "json":
      return { isFailure: false, result: self.value }
    case "error-text":
    case "error-json":
      return { isFailure: true, result: self.value }
    case "execution-denied":
      return { isFailure: true, result: self.reason ?? "The call was not allowed." }
    case "content": {
      const modelOutput = self.value.flatMap(
        (item): ReadonlyArray<Prompt.TextPartEncoded | Prompt.FilePartEncoded> =>
          item.type === "text" ? [text(item)] : item.type === "file" ? [file(item)] : []
      )
      const said = modelOutput.flatMap((item) => (item.type === "text" ? [item.text] : []))
      return { isFailure: false, result: said.join("\n"), modelOutput }
    }
  }
}

interface WithOptions {
  readonly providerOptions?: Readonly<Record<string, unknown>> | undefined
}

/** The AI SDK passes metadata of a part of an answer as options of the same part in the next prompt. */
const options = ({ providerOptions }: WithOptions) => {
  const kept = Parts.metadataOf({ providerMetadata: providerOptions })
  return kept === undefined ? undefined : { options: kept.metadata }
}

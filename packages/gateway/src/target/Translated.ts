/**
 * The request of a caller for targets that do not speak its wire format. Pure.
 */
import { Dialect } from "@outlast/agent/conversation"
import { ServedRequest } from "@outlast/providers/internal"
import type { ClientCall } from "@outlast/providers/internal"
import type { LanguageModel, Prompt } from "effect/ai"
import type { Fields } from "../json/Json.ts"
import type { Translation } from "../wire/Translation.ts"
import { Untranslatable } from "../wire/Translation.ts"
import type { Translator } from "../wire/Wire.ts"

export interface Translated extends Translation {
  readonly asked: Pick<LanguageModel.ProviderOptions, "prompt" | "responseFormat" | "toolChoice" | "tools">
}

/** The request, or the reason why no target of another format can take it. */
export const of = (translator: Translator, body: Fields): Translated | Untranslatable => {
  try {
    const translation = translator.translate(body)
    const { call, object } = ServedRequest.make(translation.options)
    const { prompt, toolChoice, toolkit } = call
    const responseFormat =
      object === undefined ? ({ type: "text" } as const) : ({ type: "json", ...object } as const)
    return {
      ...translation,
      asked: { prompt, responseFormat, toolChoice, tools: Object.values(toolkit.tools) }
    }
  } catch (error) {
    if (error instanceof Untranslatable) return error
    throw error
  }
}

/** What a target of these rules cannot read of the files of a conversation. */
interface Unread {
  /** Files that the target gets in words: `image` or `file`. */
  readonly kinds: ReadonlyArray<string>
  /** A file by URL, which the target does not fetch, and neither does the gateway. */
  readonly linked: string | undefined
}

export const unreadBy = (
  prompt: Prompt.Prompt,
  { files, linkedFiles }: Pick<Dialect.Dialect, "files" | "linkedFiles"> = Dialect.defaults
): Unread => {
  const takes = (types: ReadonlyArray<string> | undefined, { mediaType }: Prompt.FilePart) =>
    types === undefined || types.some((type) => mediaType.startsWith(type))
  const kindOf = ({ mediaType }: Prompt.FilePart) => (mediaType.startsWith("image/") ? "image" : "file")
  const all = filesIn(prompt)
  const linked = all.find((file) => file.data instanceof URL && !takes(linkedFiles, file))
  return {
    kinds: [...new Set(all.filter((file) => !takes(files, file)).map(kindOf))],
    linked: linked === undefined ? undefined : kindOf(linked)
  }
}

const filesIn = ({ content }: Prompt.Prompt): ReadonlyArray<Prompt.FilePart> =>
  content.flatMap((message) => {
    if (message.role === "user") return message.content.filter((part) => part.type === "file")
    if (message.role !== "tool") return []
    return message.content.flatMap((part) =>
      part.type === "tool-result" ? (part.modelOutput ?? []).filter((output) => output.type === "file") : []
    )
  })

/** Names of fields in the header, at most, and characters of one. */
const maxNames = 40
const maxName = 60

/** The fields that a target with these namespaces does not get. `warned` are settings that its client has left out. */
export const droppedFor = (
  { dropped, names }: Pick<Translation, "dropped" | "names">,
  namespaces: ReadonlyArray<string>,
  unread: Unread,
  answered: ClientCall.Answered
): ReadonlyArray<string> => {
  const left = Array.from(dropped)
    .filter(([, takenBy]) => !takenBy.some((namespace) => namespaces.includes(namespace)))
    .map(([field]) => field)
  const warned = (answered.warnings ?? []).flatMap((warning) => {
    if (warning.type !== "unsupported" || !/^[a-z]+[A-Za-z]*$/.test(warning.feature)) return []
    const name = warning.feature.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    return [names[name] ?? name]
  })
  return [...new Set([...left, ...unread.kinds, ...warned])]
    .slice(0, maxNames)
    .map((name) => name.slice(0, maxName))
}

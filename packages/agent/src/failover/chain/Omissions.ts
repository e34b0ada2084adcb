/**
 * Parts of conversations that models have refused and that a request can do without: images and files, and thinking
 * with its signatures and item ids.
 *
 * A provider rarely says which image it refuses. Images after the last answer are new and therefore suspect. All images
 * are suspect when there are none, when the provider counts all of them, or when the model has refused images of the
 * conversation before. Thinking is left out whole.
 *
 * A call leaves parts out for itself ({@link leaveOut}). {@link Omissions.answered} remembers them once the model has
 * answered without them, so that later calls omit them at once: an image by its type, its length and samples of its
 * content, thinking for its conversation. A model that refuses images twice without having accepted one in between gets
 * none in that conversation.
 *
 * Bounded: {@link capacity} images and conversations per model, the oldest are evicted first.
 */
import type { Prompt } from "effect/ai"
import * as Parts from "../../conversation/Parts.ts"
import type { Destination } from "../../conversation/Parts.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"

/** What a request to a model omits. */
export interface Omitted {
  /** Fingerprints of images and files. */
  readonly files: ReadonlySet<string>
  readonly allFiles: boolean
  readonly thinking: boolean
  /** True when the model has refused images of the conversation before. */
  readonly again: boolean
}

export const nothing: Omitted = { files: new Set(), allFiles: false, thinking: false, again: false }

/** True for images and files that are omitted; `undefined` when none is. */
export const refuses = ({ files, allFiles }: Omitted): ((file: Prompt.FilePart) => boolean) | undefined =>
  allFiles ? () => true : files.size === 0 ? undefined : (file) => files.has(fingerprint(file))

/** The result of leaving something out. */
export interface Left {
  readonly omitted: Omitted
  /** Number of parts that are omitted in addition. */
  readonly dropped: number
  /** Number of parts of this kind that are still sent. */
  readonly left: number
}

/** Omits the suspect parts of a prompt in addition. Pure. */
export const leaveOut = (
  omitted: Omitted,
  part: Leavable,
  countsAll: boolean,
  { content }: Prompt.Prompt,
  to: Destination
): Left => {
  if (part === "thinking") {
    const dropped = omitted.thinking ? 0 : Parts.countSigned(content, to)
    return { omitted: { ...omitted, thinking: omitted.thinking || dropped > 0 }, dropped, left: 0 }
  }
  const unknown = (messages: ReadonlyArray<Prompt.Message>) => sentFiles(messages, omitted)
  const all = unknown(content)
  const latest = unknown(content.slice(content.findLastIndex(({ role }) => role === "assistant") + 1))
  const suspects = latest.length === 0 || countsAll || omitted.again ? all : latest
  const files = new Set([...omitted.files, ...suspects.map(fingerprint)])
  return {
    omitted: { ...omitted, files, again: true },
    dropped: suspects.length,
    left: all.length - suspects.length
  }
}

interface OfConversation {
  readonly thinking: boolean
  /** Number of refusals of images since the model has accepted one; `undefined` when it has refused none. */
  readonly refusals: number | undefined
}

interface OfModel {
  readonly files: Set<string>
  readonly conversations: Map<string, OfConversation>
}

export class Omissions {
  /** By provider and model. */
  readonly #models = new Map<string, OfModel>()

  /** True when no model has refused anything, as in most chains. */
  get isEmpty(): boolean {
    return this.#models.size === 0
  }

  /** What requests of a conversation to the model of `target` omit; `undefined` when it has refused nothing. */
  of(target: TargetRef, conversation: string): Omitted | undefined {
    const model = this.#models.get(modelOf(target))
    if (model === undefined) return undefined
    const { thinking = false, refusals } = model.conversations.get(conversation) ?? {}
    return { files: model.files, allFiles: (refusals ?? 0) > 1, thinking, again: refusals !== undefined }
  }

  /** The model of `target` has answered this prompt. `omitted` is what the call left out for it, if anything. */
  answered(
    target: TargetRef,
    conversation: string,
    prompt: Prompt.Prompt,
    omitted: Omitted | undefined
  ): void {
    const before = this.of(target, conversation)
    if (omitted === undefined && before?.again !== true) return
    const name = modelOf(target)
    const model = this.#models.get(name) ?? { files: new Set(), conversations: new Map() }
    const known = model.conversations.get(conversation)
    const isNew = omitted !== undefined && [...omitted.files].some((file) => !model.files.has(file))
    const hasSent = sentFiles(prompt.content, omitted ?? before ?? nothing).length > 0
    const refusals =
      known?.refusals === undefined && !isNew
        ? undefined
        : hasSent
          ? 0
          : (known?.refusals ?? 0) + (isNew ? 1 : 0)
    for (const file of omitted?.files ?? []) model.files.add(file)
    model.conversations.delete(conversation)
    model.conversations.set(conversation, { thinking: (omitted ?? before)?.thinking === true, refusals })
    bound(model.files)
    bound(model.conversations)
    this.#models.set(name, model)
  }
}

/** Maximum number of images and files, and of conversations, remembered per model. */
export const capacity = 1_000

const bound = (kept: Set<string> | Map<string, unknown>): void => {
  for (const oldest of kept.keys()) {
    if (kept.size <= capacity) return
    kept.delete(oldest)
  }
}

const modelOf = ({ provider, model }: TargetRef): string => `${provider}\n${model}`

const sentFiles = (
  messages: ReadonlyArray<Prompt.Message>,
  omitted: Omitted
): ReadonlyArray<Prompt.FilePart> => {
  const isOmitted = refuses(omitted)
  return messages.flatMap(filesOf).filter((file) => isOmitted?.(file) !== true)
}

const filesOf = (message: Prompt.Message): ReadonlyArray<Prompt.FilePart> => {
  if (message.role === "system") return []
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts.flatMap((part): ReadonlyArray<Prompt.FilePart> => {
    if (part.type === "file") return [part]
    return part.type === "tool-result"
      ? (part.modelOutput ?? []).filter((output): output is Prompt.FilePart => output.type === "file")
      : []
  })
}

/** Hashes type, length and three samples. Reading the whole image would cost more than sending it. */
const fingerprint = ({ data, mediaType }: Prompt.FilePart): string => {
  const content = data instanceof URL ? data.href : data
  const { length } = content
  const samples = [0, length >> 1, Math.max(0, length - sample)].map((at) =>
    content.slice(at, at + sample).toString()
  )
  return `${mediaType} ${length} ${samples.join(" ")}`
}

const sample = 64

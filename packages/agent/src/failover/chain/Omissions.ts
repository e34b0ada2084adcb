/**
 * Parts of conversations that models have refused and that a request can do without: images and files, and thinking
 * with its signatures and item ids.
 *
 * A provider rarely says which image it refuses. Images after the last answer are new and therefore suspect. All images
 * are suspect when there are none, when the provider counts all of them, or when it has refused the call without the
 * new ones, too. Thinking is left out whole.
 *
 * A call leaves parts out for itself ({@link leaveOut}). {@link Omissions.answered} remembers them once the model has
 * answered without them, so that later calls omit them at once. Memory is by the parts alone: an image by its type, its
 * length and samples of its content, thinking by the last part of it that was refused. A conversation that contains
 * this part goes without its thinking. Conversations without a refused part are sent whole.
 *
 * Bounded: {@link capacity} images and {@link capacity} parts of thinking per model. Those that no call has omitted for
 * longest are evicted first.
 */
import type { Prompt } from "effect/ai"
import * as Parts from "../../conversation/Parts.ts"
import type { Destination } from "../../conversation/Parts.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"

/** What the requests of a call to a model omit. */
export interface Omitted {
  /** Fingerprints of images and files. */
  readonly files: ReadonlySet<string>
  /** Fingerprint of the last part of thinking that was refused. `undefined`: thinking is sent. */
  readonly thinking: string | undefined
  /** True when the model has refused images in this call. */
  readonly again: boolean
}

export const nothing: Omitted = { files: new Set(), thinking: undefined, again: false }

/** True for images and files that are omitted; `undefined` when none is. */
export const refuses = ({ files }: Omitted): ((file: Prompt.FilePart) => boolean) | undefined =>
  files.size === 0 ? undefined : (file) => files.has(fingerprint(file))

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
    const signed = omitted.thinking === undefined ? Parts.signatures(content, to) : []
    const last = signed.at(-1)
    const thinking = last === undefined ? omitted.thinking : sampled(last)
    return { omitted: { ...omitted, thinking }, dropped: signed.length, left: 0 }
  }
  const isSent = (file: Prompt.FilePart) => !omitted.files.has(fingerprint(file))
  const all = content.flatMap(filesOf).filter(isSent)
  const lastAnswer = content.findLastIndex(({ role }) => role === "assistant")
  const latest = content
    .slice(lastAnswer + 1)
    .flatMap(filesOf)
    .filter(isSent)
  const suspects = latest.length === 0 || countsAll || omitted.again ? all : latest
  const files = new Set([...omitted.files, ...suspects.map(fingerprint)])
  return {
    omitted: { ...omitted, files, again: true },
    dropped: suspects.length,
    left: all.length - suspects.length
  }
}

/** What a request omits because its model has refused it in earlier calls. */
export interface Recalled {
  readonly omitted: Omitted
  /** Number of parts of each kind. */
  readonly dropped: Readonly<Record<Leavable, number>>
}

interface OfModel {
  readonly files: Set<string>
  readonly thinking: Set<string>
}

export class Omissions {
  /** By provider and model. */
  readonly #models = new Map<string, OfModel>()

  /** True when no model has refused anything, as in most chains. */
  get isEmpty(): boolean {
    return this.#models.size === 0
  }

  /** What requests to the model of `target` omit of a prompt; `undefined` when the model has refused none of it. */
  of(target: TargetRef, { content }: Prompt.Prompt, to: Destination): Recalled | undefined {
    const model = this.#models.get(modelOf(target))
    if (model === undefined) return undefined
    const files = content
      .flatMap(filesOf)
      .map(fingerprint)
      .filter((file) => model.files.has(file))
    const signed = model.thinking.size === 0 ? [] : Parts.signatures(content, to).map(sampled)
    const thinking = signed.findLast((part) => model.thinking.has(part))
    if (files.length === 0 && thinking === undefined) return undefined
    return {
      omitted: { files: new Set(files), thinking, again: false },
      dropped: { media: files.length, thinking: thinking === undefined ? 0 : signed.length }
    }
  }

  /** The model of `target` has answered a call that omitted this. */
  answered(target: TargetRef, { files, thinking }: Omitted): void {
    const name = modelOf(target)
    const model = this.#models.get(name) ?? { files: new Set(), thinking: new Set() }
    this.#models.set(name, model)
    for (const file of files) remember(model.files, file)
    if (thinking !== undefined) remember(model.thinking, thinking)
  }
}

/** Maximum number of images and files, and of parts of thinking, remembered per model. */
const capacity = 1_000

/** Adds a fingerprint as the newest. The oldest is evicted above the capacity. */
const remember = (kept: Set<string>, fingerprint: string): void => {
  kept.delete(fingerprint)
  kept.add(fingerprint)
  for (const oldest of kept) {
    if (kept.size <= capacity) return
    kept.delete(oldest)
  }
}

const modelOf = ({ provider, model }: TargetRef): string => `${provider}\n${model}`

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

const fingerprint = ({ data, mediaType }: Prompt.FilePart): string =>
  `${mediaType} ${sampled(data instanceof URL ? data.href : data)}`

/** Length and three samples. Reading a whole image would cost more than sending it. */
const sampled = (content: string | Uint8Array): string => {
  const { length } = content
  const samples = [0, length >> 1, Math.max(0, length - sample)].map((at) =>
    content.slice(at, at + sample).toString()
  )
  return `${length} ${samples.join(" ")}`
}

const sample = 64

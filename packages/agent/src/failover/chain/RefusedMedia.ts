/**
 * Remembers images and files that models have refused. Later requests have a note in their place.
 *
 * A provider rarely says which image it refuses. Images after the last answer are new and therefore suspect. When
 * there are none, all images are. An image is identified by its type, its length and samples of its content, so that
 * every later call omits the same image.
 *
 * Bounded: {@link capacity} images per model, the oldest are evicted first.
 */
import type { Prompt } from "effect/ai"
import type { TargetRef } from "../../conversation/TargetRef.ts"

export class RefusedMedia {
  /** Fingerprints of refused images and files, by provider and model. */
  readonly #refused = new Map<string, Set<string>>()

  /**
   * Returns a test for images and files that the model of `target` has refused; `undefined` when it has refused none.
   */
  test(target: TargetRef): ((file: Prompt.FilePart) => boolean) | undefined {
    // Most chains have no refused image. Skip building the model's name then.
    if (this.#refused.size === 0) return undefined
    const refused = this.#refused.get(modelOf(target))
    return refused === undefined ? undefined : (file) => refused.has(fingerprint(file))
  }

  /** Remembers the suspect images of a prompt that the model of `target` refused. Returns the number of new ones. */
  add(target: TargetRef, { content }: Prompt.Prompt): number {
    const model = modelOf(target)
    const refused = this.#refused.get(model) ?? new Set()
    const since = content.findLastIndex(({ role }) => role === "assistant")
    const unknown = (messages: ReadonlyArray<Prompt.Message>) =>
      messages.flatMap(filesOf).filter((file) => !refused.has(fingerprint(file)))
    const latest = unknown(content.slice(since + 1))
    const suspects = latest.length > 0 ? latest : unknown(content)
    for (const file of suspects) refused.add(fingerprint(file))
    for (const oldest of refused) {
      if (refused.size <= capacity) break
      refused.delete(oldest)
    }
    if (refused.size > 0) this.#refused.set(model, refused)
    return suspects.length
  }
}

/** Maximum number of images and files remembered per model. */
const capacity = 1_000

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

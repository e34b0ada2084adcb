/**
 * The images and files that models have refused: a request that names them is sent with a note in their place.
 *
 * A provider says that it refuses an image, seldom which. Those behind the last answer are new and hence suspect; where
 * there are none, all are. Images are known again by their type, their length and samples of their content, so that the
 * same image is left out of every later call.
 *
 * Bounded: {@link capacity} images per model, the oldest forgotten first.
 */
import type { Prompt } from "effect/ai"
import type { TargetRef } from "../../conversation/TargetRef.ts"

export class RefusedMedia {
  /** By provider and model. */
  readonly #refused = new Map<string, Set<string>>()

  /** A test for images and files that the model of `target` has refused; `undefined` where it has refused none. */
  test(target: TargetRef): ((file: Prompt.FilePart) => boolean) | undefined {
    // Most chains have met none: then no name is made.
    if (this.#refused.size === 0) return undefined
    const refused = this.#refused.get(modelOf(target))
    return refused === undefined ? undefined : (file) => refused.has(fingerprint(file))
  }

  /** Remembers the suspects of a prompt that the model of `target` refused. Returns how many are new. */
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

/** Images and files that are remembered of one model. */
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

/** Type, length and three samples: reading all of an image would cost more than sending it. */
const fingerprint = ({ data, mediaType }: Prompt.FilePart): string => {
  const content = data instanceof URL ? data.href : data
  const { length } = content
  const samples = [0, length >> 1, Math.max(0, length - sample)].map((at) =>
    content.slice(at, at + sample).toString()
  )
  return `${mediaType} ${length} ${samples.join(" ")}`
}

const sample = 64

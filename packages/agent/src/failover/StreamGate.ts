/**
 * What a consumer may see of the attempts of one streamed call: synchronous, array-wise, no Effect.
 *
 * - The preamble (metadata, the start of a block) is held back until content comes, so that an attempt that
 *   dies before leaves no trace.
 * - Tool calls, their parameters, files and sources are held back until a complete `finish`: no handler runs for
 *   an attempt that failed or was cut.
 * - Attempts that continue a shown text write on in the same text block, under the same id.
 * - Thinking that was shown and then repeated is closed and marked, so that it is never sent.
 *
 * One `StreamGate` serves one call; {@link StreamGate.begin} starts the next attempt.
 */
import type { Response } from "effect/ai"
import { namespace } from "./Answered.ts"
import type { Answered } from "./Answered.ts"
import type { Commit } from "./CallState.ts"

type Part = Response.StreamPartEncoded

export class StreamGate {
  /** What the consumer has seen of the current attempt. */
  commit: Commit = "nothing"
  /** All text that the consumer has seen of the call. */
  text = ""
  /** The current attempt has sent something that is no keep-alive. Reset it to watch for more. */
  alive = false
  /** The complete end of the answer. */
  finish: Response.FinishPartEncoded | undefined
  /** The part with which the provider ended the current attempt as failed; nothing after it is read. */
  failed: Response.ErrorPartEncoded | Response.FinishPartEncoded | undefined

  readonly #requested: string
  #answered: Answered | undefined
  #attempt = 0
  /** The consumer has seen content of the current attempt. */
  #shown = false
  /** Held until content comes. */
  #preamble: Array<Part> = []
  /** Held until the finish. */
  #tail: Array<Part> = []
  /** The text block that is open for the consumer, now and when the attempt began. */
  #openText: string | undefined
  #openTextBefore: string | undefined
  /** The end of the open text block: held, because a later attempt may write on in it. */
  #textEnd: Part | undefined
  /** The thinking block that is open for the consumer, and one that an earlier attempt left open. */
  #openReasoning: string | undefined
  #staleReasoning: string | undefined
  /** Ids of this attempt's blocks as the consumer knows them. */
  #ids = new Map<string, string>()

  /** `requested` is the id of the target that stands first. */
  constructor(requested: string) {
    this.#requested = requested
  }

  /** Starts an attempt. What was held of the one before is dropped. */
  begin(answered: Omit<Answered, "requested" | "costUsd">): void {
    if (this.#shown) this.#staleReasoning = this.#openReasoning ?? this.#staleReasoning
    else this.#openText = this.#openTextBefore
    this.#openTextBefore = this.#openText
    this.#openReasoning = undefined
    this.#textEnd = undefined
    this.#preamble = []
    this.#tail = []
    this.#ids = new Map()
    this.#attempt++
    this.#answered = { requested: this.#requested, ...answered }
    this.commit = "nothing"
    this.alive = false
    this.#shown = false
    this.failed = undefined
  }

  /** What the consumer gets for these parts. */
  push(parts: ReadonlyArray<Part>): Array<Part> {
    const out: Array<Part> = []
    for (const part of parts) {
      if (this.failed !== undefined) break
      this.#one(part, out)
    }
    return out
  }

  /** The part with who answers in its metadata. */
  #signed(part: Response.TextStartPartEncoded): Response.TextStartPartEncoded {
    if (this.#answered === undefined) return part
    return { ...part, metadata: { ...part.metadata, [namespace]: this.#answered } }
  }

  /** The finish part with `costUsd` added to what is known of the answer. */
  priced(finish: Response.FinishPartEncoded, costUsd: number | undefined): Response.FinishPartEncoded {
    if (this.#answered === undefined) return finish
    const answered: Answered = costUsd === undefined ? this.#answered : { ...this.#answered, costUsd }
    return { ...finish, metadata: { ...finish.metadata, [namespace]: answered } }
  }

  #one(part: Part, out: Array<Part>): void {
    switch (part.type) {
      case "text-delta": {
        // An empty delta is no content; some providers send a late signature of the block with it.
        if (part.delta !== "") {
          this.#content(out)
          this.commit = "text"
          this.text += part.delta
          out.push(this.#renamed(part))
        } else if (part.metadata !== undefined) {
          this.#emit(this.#renamed(part), out)
        }
        return
      }
      case "text-start": {
        if (this.#openText !== undefined && this.#textEnd === undefined) {
          this.#ids.set(part.id, this.#openText)
          return
        }
        this.#endText(out)
        this.#openText = this.#claim(part.id)
        this.#emit(this.#signed({ ...part, id: this.#openText }), out)
        return
      }
      case "text-end": {
        this.#textEnd = this.#renamed(part)
        return
      }
      case "reasoning-start": {
        this.#endText(out)
        this.#openReasoning = this.#claim(part.id)
        this.#emit({ ...part, id: this.#openReasoning }, out)
        return
      }
      case "reasoning-delta": {
        this.#content(out)
        if (this.commit === "nothing") this.commit = "reasoning"
        out.push(this.#renamed(part))
        return
      }
      case "reasoning-end": {
        this.#content(out)
        this.#openReasoning = undefined
        out.push(this.#renamed(part))
        return
      }
      case "response-metadata": {
        this.#emit(part, out)
        return
      }
      case "error": {
        this.failed = part
        return
      }
      case "finish": {
        if (part.reason === "error") {
          this.failed = part
          return
        }
        this.#content(out)
        if (this.#openText !== undefined) this.#textEnd ??= { type: "text-end", id: this.#openText }
        this.#endText(out)
        out.push(...this.#tail)
        this.finish = part
        return
      }
      default: {
        // A tool that the provider runs itself has had its effect: the call must not be repeated.
        if ("providerExecuted" in part && part.providerExecuted === true) this.commit = "tool"
        this.alive = true
        this.#tail.push(part)
      }
    }
  }

  /** Shows a part that is no content by itself: later, if nothing has come yet. */
  #emit(part: Part, out: Array<Part>): void {
    if (this.#shown) out.push(part)
    else this.#preamble.push(part)
  }

  /** Content has come: the preamble may be seen. */
  #content(out: Array<Part>): void {
    this.alive = true
    if (this.#shown) return
    this.#shown = true
    if (this.#staleReasoning !== undefined) {
      out.push({ type: "reasoning-end", id: this.#staleReasoning, metadata: { [namespace]: { partial: true } } })
      this.#staleReasoning = undefined
    }
    out.push(...this.#preamble)
    this.#preamble = []
  }

  #endText(out: Array<Part>): void {
    if (this.#textEnd === undefined) return
    this.#emit(this.#textEnd, out)
    this.#textEnd = undefined
    this.#openText = undefined
  }

  /** An id that no earlier attempt has used. */
  #claim(id: string): string {
    const unique = this.#attempt === 1 ? id : `${this.#attempt}:${id}`
    this.#ids.set(id, unique)
    return unique
  }

  #renamed<P extends Part & { readonly id: string }>(part: P): P {
    const id = this.#ids.get(part.id) ?? part.id
    return id === part.id ? part : { ...part, id }
  }
}

/**
 * One call of the gateway, as its attempts see it: the caller's request as it came, and what the gateway learns of the
 * answers beside their parts. The attempts find it in their context (`ClientOptions`).
 */
import { ClientOptions } from "@outlast/agent/failover"
import type { Priority } from "@outlast/agent/limiter"
import type { Duration, Fiber, Tracer } from "effect"
import { fields, parse, textsIn } from "../json/Json.ts"
import type { Fields } from "../json/Json.ts"
import type { Edits } from "../json/Splice.ts"
import * as Splice from "../json/Splice.ts"
import type { Untranslatable } from "../wire/Translation.ts"
import type { Asked, Source, Translator, Wire } from "../wire/Wire.ts"
import * as Translated from "./Translated.ts"

/** What a caller may say of its call, in headers. */
export interface Narrowed {
  /** From `x-outlast-timeout`: no attempt begins later. */
  readonly timeout: Duration.Duration | undefined
  /** From `x-outlast-max-cost`, in US dollars. */
  readonly maxCost: number | undefined
  /** From `x-outlast-priority`. */
  readonly priority: Priority.Priority | undefined
}

/** An error of a vendor, as it came. */
export interface Refusal {
  readonly status: number
  readonly body: string
}

export class WireCall {
  readonly wire: Wire
  /** The JSON of the request, as it goes on. */
  readonly text: string
  readonly asked: Asked
  /** The change with which a vendor is asked for its usage, where the caller did not ask. */
  readonly asksUsage: Edits | undefined
  /** Headers of the request that go on. */
  readonly headers: Readonly<Record<string, string>>
  /** The caller's own span. */
  readonly parent: Tracer.ExternalSpan | undefined
  /** Arguments of tool calls are shown as they come. */
  readonly flows: boolean
  /** What the caller allows less than the route. */
  readonly narrowed: Narrowed
  /** The number of attempts so far. */
  attempts = 0
  /** The gateway has ended the call. */
  isCut = false
  #interrupt: () => void = () => {}
  #translated: Translated.Translated | Untranslatable | undefined
  /** The attempts, in the order of their begin. */
  readonly #sources: Array<Source> = []
  readonly #refusals: Array<Refusal & { readonly source: Source }> = []

  constructor(
    wire: Wire,
    {
      body,
      flows,
      headers,
      narrowed,
      parent,
      text
    }: Pick<WireCall, "flows" | "headers" | "narrowed" | "parent" | "text"> & { readonly body: Fields }
  ) {
    this.wire = wire
    const edits = wire.withoutCuts(body)
    this.text = edits.size === 0 ? text : Splice.changed(text, edits)
    this.asked = wire.asked(body)
    this.asksUsage = wire.asksUsage?.(body)
    this.headers = headers
    this.parent = parent
    this.flows = flows
    this.narrowed = narrowed
  }

  /** Tells how the call is interrupted, once it runs. */
  runs(interrupt: () => void): void {
    this.#interrupt = interrupt
  }

  /** Ends the call in the middle, because the gateway ends. */
  cut(): void {
    this.isCut = true
    this.#interrupt()
  }

  /** The request for targets of other formats. It is read when the first of them is asked. */
  translatedBy(translator: Translator): Translated.Translated | Untranslatable {
    this.#translated ??= Translated.of(translator, this.body)
    return this.#translated
  }

  /** The request. Parsed anew: a call that kept it would hold its request twice. */
  get body(): Fields {
    return fields(parse(this.text))
  }

  /** All texts of the conversation: no error may repeat them. */
  get prompt(): ReadonlyArray<string> {
    const { input, instructions, messages, system } = this.body
    return textsIn([messages, input, system, instructions])
  }

  /** An attempt begins. `failed` is the last failure of the call: an attempt does not see all of its own. */
  begins(source: Source, failed: string | undefined): void {
    const last = this.#sources.at(-1)
    if (last !== undefined && failed !== undefined) last.failed ??= failed
    this.#sources.push(source)
  }

  /** The attempt failed, for a reason with this tag. */
  failed(source: Source, tag: string, refusal: Refusal | undefined): void {
    source.failed = tag
    if (refusal !== undefined) this.#refusals.push({ ...refusal, source })
  }

  /**
   * The error that the caller is to see as it was written, if there is one: of the last kind of failure, and rather that of a
   * target that speaks the caller's format.
   */
  get refusal(): (Refusal & { readonly source: Source }) | undefined {
    const last = this.#sources.findLast(({ failed }) => failed !== undefined)
    const refusals = this.#refusals.filter(({ source }) => source.failed === last?.failed)
    return refusals.findLast(({ source }) => source.dropped === undefined) ?? refusals.at(-1)
  }

  /** The failure, by its tag, for which the call left another model for that of `source`. */
  switchedTo(source: Source): string | undefined {
    const { model, provider } = source.target
    return this.#sources
      .slice(0, this.#sources.indexOf(source))
      .findLast(({ target }) => target.model !== model || target.provider !== provider)?.failed
  }
}

/** The call that the attempt of a fiber belongs to. */
export const currentOf = (fiber: Fiber.Fiber<unknown, unknown>): WireCall => {
  const call = fiber.getRef(ClientOptions.ClientOptions)
  if (call instanceof WireCall) return call
  throw new Error("A target of the gateway was asked outside of a call of the gateway.")
}

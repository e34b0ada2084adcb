/**
 * Who made the answers that later requests may refer to (`previous_response_id`). A vendor knows its answers by the key
 * alone, so such a request may go to no other key.
 *
 * The last {@link maxIds} are remembered, whatever happens to the routes meanwhile.
 */
import type { TargetRef } from "@outlast/agent/conversation"

/** Answers to remember. */
export const maxIds = 10_000

/** `shared`: more than one attempt has made the answer, so no vendor knows its id. */
export type Maker = TargetRef.TargetRef | "shared"

export class AnswerIds {
  readonly #makers = new Map<string, Maker>()

  add(id: string, maker: Maker): void {
    this.#makers.set(id, maker)
    const [oldest] = this.#makers.keys()
    if (this.#makers.size > maxIds && oldest !== undefined) this.#makers.delete(oldest)
  }

  /** `undefined` for an answer of another gateway, of a vendor itself, or of long ago. */
  makerOf(id: string): Maker | undefined {
    return this.#makers.get(id)
  }
}

/** True for the targets that know answers of `maker`: those of its key, with any model. */
export const knows =
  (maker: TargetRef.TargetRef) =>
  ({ endpoint, key }: TargetRef.TargetRef): boolean =>
    endpoint === maker.endpoint && key === maker.key

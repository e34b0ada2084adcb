/** Checked by `tsc -b`; never run. */
import type { EventDefinition, ResilienceEvents } from "@outlast/resilience"

interface MailSent extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "MailSent"
  readonly server: string
}

interface MailRefused extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "MailRefused"
}

const sent: EventDefinition.EventDefinition<MailSent> = {
  doc: "A server has accepted a mail.",
  line: ({ server }) => ({ level: "Info", text: server }),
  metrics: []
}

// @ts-expect-error: an event of the union has no definition
export const missing: EventDefinition.EventDefinitions<MailSent | MailRefused> = { MailSent: sent }

export const incomplete: EventDefinition.EventDefinitions<MailSent> = {
  // @ts-expect-error: a definition without its line
  MailSent: { doc: "A server has accepted a mail.", metrics: [] }
}

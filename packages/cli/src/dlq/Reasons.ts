/** Why an event is dead. */
export const reasons = ["rejected", "shed", "deliveries"] as const
export type Reason = (typeof reasons)[number]

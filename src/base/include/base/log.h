/*
 * What the server says to its operator: one line on standard error, with the
 * severity first.  Handles, addresses and tensor bytes are never logged.
 * Any thread.
 */
#ifndef TASD_BASE_LOG_H
#define TASD_BASE_LOG_H

__attribute__((format(printf, 1, 2))) void tasd_log_info(
	const char *format, ...);
__attribute__((format(printf, 1, 2))) void tasd_log_warn(
	const char *format, ...);

#endif

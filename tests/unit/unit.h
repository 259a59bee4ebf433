/*
 * What every unit test's main() would repeat: one suite of one case, run in
 * child processes so that a crash is a failure with a name.
 */
#ifndef TASD_TESTS_UNIT_H
#define TASD_TESTS_UNIT_H

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * ck_assert() for inner loops: that one writes to a pipe each time, which
 * makes a million checks slow; these only do when they fail.
 */
#define require(cond)                                                          \
	do {                                                                   \
		if (!(cond))                                                   \
			ck_abort_msg("failed: %s", #cond);                     \
	} while (0)
#define require_op(a, op, b)                                                   \
	do {                                                                   \
		uint64_t a_ = (uintptr_t)(a), b_ = (uintptr_t)(b);             \
                                                                               \
		if (!(a_ op b_))                                               \
			ck_abort_msg("failed: %s %s %s (%llu, %llu)", #a, #op, \
				#b, (unsigned long long)a_,                    \
				(unsigned long long)b_);                       \
	} while (0)
#define require_eq(a, b) require_op(a, ==, b)

static inline int unit_run(const char *name, const TTest *const *tests)
{
	Suite *suite = suite_create(name);
	TCase *tcase = tcase_create(name);
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, 60);
	for (; *tests != NULL; tests++)
		tcase_add_test(tcase, *tests);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
